"""Odd machines: limits, languages, rights, folders, streams and neighbours that a command may meet.

`python tests/robustness/machines.py NUMBER` makes one of the attacks again and shows what came of it.
"""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attacks import Result, faults_of, files_in, harm, open_to_all
from documents import CHECKPOINTS, OF_THE_BEGUN, Place
from real import Real
from warm import Attempt, Warms

LIMIT_S = 150.0
_LIBC = ctypes.CDLL(None)
_PR_CAPBSET_DROP, _BEYOND_MODES = 24, (1, 2)  # linux/prctl.h; CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH
MIB = 2**20
DONE, REFUSED, FAILED = (0,), (2,), (1,)
EITHER, LOST_OUTPUT = (0, 2), (1, 2)  # there is a way round or a refusal; nobody could read the result

RUN = ("run", "toy.yaml", "--out", "new")
RESUME = ("run", "toy.yaml", "--out", "begun")
AGAIN = ("run", "toy.yaml", "--out", "done")
REPORT, STATUS = ("report", "done"), ("status", "done")
SAMPLE = ("sample", "done", "--cell", "dense", "--num", "2")
CHECK = ("ci", "check", "done", "--baseline", "baseline.json")
CLEAN = ("clean", "done", "--yes")
FEATURES = ("features", "files.yaml", "--out", "new.safetensors", "--iterations", "2")
PLAN, LIST, PROFILE, DOCTOR = ("plan", "toy.yaml"), ("list", "backbones"), ("profile", "DiT-S/2"), ("doctor",)

Command = tuple[str, ...]
Prepare = Callable[[Path], None]


@dataclass(frozen=True, slots=True)
class Machine:
    """What is odd, a command that meets it, and the statuses that it may end with.

    Args:
        prepare: called with the place of the attack, before the command starts.
        before: called in the command's process.
        meanwhile: called with the place and the running command.
        streams: of the process, in place of files; callables are opened with the place.
    """

    oddity: str
    command: Command
    statuses: tuple[int, ...] = DONE
    environment: Mapping[str, str | None] | None = None
    prepare: Prepare | None = None
    before: Callable[[], None] | None = None
    meanwhile: Callable[[Path, Real], None] | None = None
    streams: Mapping[str, Callable[[], Any]] | None = None
    folder: str = ""  # below the place: where the command is started


# Oddities


def limited(kind: int, value: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(kind, (value, value))


def without_rights() -> None:
    """From here on root may read and write what modes allow, as everybody else may."""
    if os.geteuid() == 0:
        for capability in _BEYOND_MODES:
            _LIBC.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)  # gone at the command's exec


def without_rights_and_hidden() -> None:
    """What it writes, nobody may read, itself neither."""
    without_rights()
    os.umask(0o777)


def one_processor() -> None:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def closed(*descriptors: int) -> Callable[[], None]:
    def close() -> None:
        for descriptor in descriptors:
            os.close(descriptor)

    return close


def without_folder() -> None:
    """The working folder goes before the command starts."""
    os.mkdir("gone")
    os.chdir("gone")
    os.rmdir("../gone")


def modes(pattern: str, mode: int) -> Prepare:
    """Of what matches below the place; "" is the place itself."""

    def change(here: Path) -> None:
        for path in here.glob(pattern) if pattern else [here]:
            path.chmod(mode)

    return change


def open_again(here: Path) -> None:
    """Undo it, for whoever looks at what is left."""
    here.chmod(0o755)
    for place, folders, names in os.walk(here):
        for name in (*folders, *names):
            path = Path(place, name)
            if not path.is_symlink():
                path.chmod(0o755)


def plugin(body: str) -> Prepare:
    """A distribution on the path that announces a backbone and does something when it is imported."""

    def write(here: Path) -> None:
        about = here / "site" / "odd-0.1.dist-info"
        about.mkdir(parents=True)
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: odd-plugin\nVersion: 0.1\n")
        (about / "entry_points.txt").write_text("[tread_bench.backbones]\nOdd = odd_backbone:ODD\n")
        (here / "site" / "odd_backbone.py").write_text(body)

    return write


def linked(name: str, target: str) -> Prepare:
    return lambda here: (here / name).symlink_to(target)


def file_at(name: str) -> Prepare:
    return lambda here: (here / name).write_text("mine\n") and None


def renamed_while_it_runs(here: Path, life: Real) -> None:
    while not list((here / "new").glob("cells/*/cell.json")) and life.process.poll() is None:
        time.sleep(0.01)
    if (here / "new").exists():
        (here / "new").rename(here / "renamed")


def removed_while_it_runs(here: Path, life: Real) -> None:
    while not list((here / "new").glob("cells/*/cell.json")) and life.process.poll() is None:
        time.sleep(0.01)
    shutil.rmtree(here / "new", ignore_errors=True)


def nobody_reads() -> int:
    """The end of a pipe whose reader has gone."""
    reader, writer = os.pipe()
    os.close(reader)
    return writer


def full() -> int:
    return os.open("/dev/full", os.O_WRONLY)


ASCII = {"LC_ALL": "C", "LANG": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0", "PYTHONIOENCODING": None}
SHORT_NAME = "é" * 100  # 200 bytes: a file name, with little room for what is put around it
LONG_TMP = "t" * 100
SITE = {"PYTHONPATH": "site"}
PLUGINS = {
    "that ends Python with status 0": "raise SystemExit(0)",
    "that ends Python with status 3": "import sys; sys.exit(3)",
    "that raises": "raise RuntimeError('odd \\x1b[31m red')",
    "that does not parse": "def (",
    "that is interrupted": "raise KeyboardInterrupt",
    "that is not a family": "ODD = 3",
    "that lacks the name": "EVEN = 3",
    "that prints": "print('\\x1b[31m hello')\nODD = 3",
}


def _everywhere(
    oddity: str, commands: Sequence[Command], statuses: tuple[int, ...] = DONE, **how: Any
) -> list[Machine]:
    return [Machine(oddity, command, statuses, **how) for command in commands]


MACHINES = (
    # languages
    *_everywhere("an ASCII locale", (RUN, AGAIN, REPORT, STATUS, PLAN, LIST, CHECK, DOCTOR), environment=ASCII),
    *_everywhere(
        "streams of Latin 1",
        (REPORT, AGAIN, STATUS),
        environment={"PYTHONIOENCODING": "latin-1", "PYTHONUTF8": "0"},
    ),
    *_everywhere("a locale that does not exist", (PLAN,), environment={"LC_ALL": "xx_YY.UTF-8"}),
    # terminals
    *_everywhere("a terminal of one column", (STATUS, CHECK), environment={"COLUMNS": "1", "LINES": "1"}),
    *_everywhere("a terminal that is unknown", (STATUS,), environment={"TERM": "no-such", "COLUMNS": "abc"}),
    # temporary folders
    *_everywhere(
        "a TMPDIR of 100 characters",
        (RUN, RESUME, REPORT, SAMPLE),
        environment={"TMPDIR": LONG_TMP},
        prepare=lambda here: (here / LONG_TMP).mkdir(),
    ),
    *_everywhere(
        "a TMPDIR of 220 characters below others",
        (RUN,),
        environment={"TMPDIR": f"{LONG_TMP}/{'u' * 220}"},
        prepare=lambda here: (here / LONG_TMP / ("u" * 220)).mkdir(parents=True),
    ),
    *_everywhere("a TMPDIR that is not there", (RUN, REPORT), environment={"TMPDIR": "/nowhere/at/all"}),
    *_everywhere(
        "a TMPDIR that cannot be written",
        (RUN, CHECK),
        environment={"TMPDIR": "mine"},
        prepare=modes("mine", 0o555),
        before=without_rights,
    ),
    # rights
    *_everywhere(
        "the rights of everybody",
        (RESUME, CLEAN),
        before=without_rights,
    ),
    *_everywhere(
        "a run folder that cannot be written",
        (REPORT, SAMPLE),
        REFUSED,
        prepare=modes("done", 0o555),
        before=without_rights,
    ),
    *_everywhere(
        "a run folder that cannot be written",
        (AGAIN, STATUS, CHECK, CLEAN),
        EITHER,
        prepare=modes("done", 0o555),
        before=without_rights,
    ),
    *_everywhere(
        "a place that cannot be written",
        (RUN, FEATURES),
        REFUSED,
        prepare=modes("", 0o555),
        before=without_rights,
    ),
    *_everywhere(
        "records that cannot be read",
        (REPORT, STATUS, CHECK, AGAIN, CLEAN),
        (0, 2, 3),
        prepare=modes("done/cells/*/record.json", 0),
        before=without_rights,
    ),
    *_everywhere(
        "a cell that cannot be entered",
        (REPORT, STATUS, CHECK, AGAIN, CLEAN, SAMPLE),
        (0, 2, 3),
        prepare=modes("done/cells/dense-*", 0),
        before=without_rights,
    ),
    *_everywhere(
        "a plan that cannot be read",
        (REPORT, STATUS, AGAIN),
        REFUSED,
        prepare=modes("done/plan.json", 0),
        before=without_rights,
    ),
    *_everywhere(
        "a suite that cannot be read", (PLAN, RUN), REFUSED, prepare=modes("toy.yaml", 0), before=without_rights
    ),
    *_everywhere(
        "weights that cannot be read",
        (SAMPLE,),
        REFUSED,
        prepare=modes("done/cells/*/weights/*", 0),
        before=without_rights,
    ),
    *_everywhere(
        "files that nobody may read",
        (RUN,),
        EITHER,
        before=without_rights_and_hidden,
    ),
    # limits
    *(
        Machine(f"{count} file descriptors", command, EITHER, before=limited(resource.RLIMIT_NOFILE, count))
        for count in (6, 10, 16)
        for command in (RUN, REPORT, STATUS)
    ),
    *(
        Machine(f"{size} MiB of memory", command, (0, 1, 2), before=limited(resource.RLIMIT_AS, size * MIB))
        for size, command in ((200, STATUS), (400, REPORT), (1000, RUN), (2000, SAMPLE), (3000, RUN))
    ),
    *(
        Machine(f"files of {size} bytes at most", command, statuses, before=limited(resource.RLIMIT_FSIZE, size))
        for size, command, statuses in (
            *((0, REPORT, REFUSED), (1000, REPORT, REFUSED), (50_000, SAMPLE, DONE), (0, CHECK, LOST_OUTPUT)),
            *((10_000, RUN, (1, 2)), (1000, FEATURES, REFUSED), (100_000, RESUME, (0, 1, 2))),
        )
    ),
    *_everywhere("one processor", (RUN,), before=one_processor),
    *_everywhere("a small stack", (REPORT,), before=limited(resource.RLIMIT_STACK, MIB)),
    # streams
    *_everywhere("stdout is full", (RUN, REPORT, STATUS, PLAN, LIST), LOST_OUTPUT, streams={"stdout": full}),
    *_everywhere("stdout is closed", (RUN, REPORT, STATUS, PLAN), (0, 1, 2), before=closed(1)),
    *_everywhere("nobody reads stdout", (REPORT, STATUS, PLAN), LOST_OUTPUT, streams={"stdout": nobody_reads}),
    *_everywhere("stderr is full", (RUN, RESUME, REPORT, STATUS), streams={"stderr": full}),
    *_everywhere("stderr is closed", (RUN, REPORT), before=closed(2)),
    *_everywhere("nobody reads stderr", (RUN,), streams={"stderr": nobody_reads}),
    *_everywhere("all streams are closed", (RUN, STATUS), (0, 1, 2), before=closed(0, 1, 2)),
    *_everywhere("stdin is closed", (RUN, CLEAN), before=closed(0)),
    # what is not installed, or not set
    *_everywhere("no git", (RUN, DOCTOR), environment={"PATH": "/nowhere"}),
    *_everywhere("no home", (REPORT, RUN), environment={"HOME": None, "USER": None, "PATH": None}),
    *_everywhere(
        "a home that cannot be written",
        (REPORT, PROFILE),
        environment={"HOME": "/proc/self", "MPLCONFIGDIR": "/proc/self", "NUMBA_CACHE_DIR": "/proc/self"},
    ),
    *_everywhere("threads that are no number", (SAMPLE,), EITHER, environment={"OMP_NUM_THREADS": "many"}),
    *_everywhere("GPUs that are no GPUs", (RUN,), EITHER, environment={"CUDA_VISIBLE_DEVICES": "99,x"}),
    Machine("no GPU", (*AGAIN, "--fresh", "--yes", "--device", "cuda"), REFUSED, {"CUDA_VISIBLE_DEVICES": ""}),
    Machine("no Slurm", (*AGAIN, "--fresh", "--yes", "--executor", "slurm"), (1, 2), {"PATH": "/nowhere"}),
    # folders and names
    *_everywhere("the working folder has gone", (LIST, PLAN, STATUS), EITHER, before=without_folder),
    *(
        Machine(f"--out {told}", ("run", "toy.yaml", "--out", out), statuses)
        for told, out, statuses in (
            *(
                ("a file", "toy.yaml", REFUSED),
                ("below a file", "toy.yaml/run", REFUSED),
                ("/proc", "/proc/x", REFUSED),
            ),
            *(
                ("of 300 characters", "x" * 300, REFUSED),
                ("of 5,000", "y/" * 2500, REFUSED),
                ("/dev/full", "/dev/full", REFUSED),
            ),
            *(("with a newline", "a\nb", EITHER), ("of 200 bytes", SHORT_NAME, EITHER), ("mine", "mine", REFUSED)),
        )
    ),
    *(
        Machine(f"{command[0]} --out {told}", (*command, "--out", out), REFUSED)
        for command in (SAMPLE, FEATURES[:2])
        for told, out in (("below a file", "toy.yaml/x"), ("of 300 characters", "x" * 300))
    ),
    Machine("sample --out /dev/null", (*SAMPLE, "--out", "/dev/null"), REFUSED),
    Machine(
        "features --out over a suite", ("features", "files.yaml", "--out", "toy.yaml", "--iterations", "1"), REFUSED
    ),
    Machine("sample --out mine", (*SAMPLE, "--out", "mine"), REFUSED),
    Machine("a run folder behind a link", ("report", "link"), DONE, prepare=linked("link", "done")),
    Machine("a run folder behind a link to itself", ("report", "link"), REFUSED, prepare=linked("link", "link")),
    Machine("a run folder that is renamed", RUN, (1, 2), meanwhile=renamed_while_it_runs),
    Machine("a run folder that is removed", RUN, (1, 2), meanwhile=removed_while_it_runs),
    # numbers
    Machine("a shard of a billion", (*RUN, "--shard", "1/1000000000"), REFUSED),
    *(
        Machine("a number of 5,000 digits", (*command, "9" * 5000), REFUSED)
        for command in (
            *((*RUN, "--workers"), (*RUN, "--shard"), (*SAMPLE[:-1],), (*SAMPLE, "--classes")),
            ("profile", "DiT-S/2", "--batch"),
        )
    ),
    Machine("an image of a billion pixels", ("profile", "DiT-S/2", "--set", "image_size=1000000000"), EITHER),
    # others' code
    *(
        Machine(f"a plug-in {told}", command, EITHER, SITE, prepare=plugin(body))
        for told, body in PLUGINS.items()
        for command in (LIST, CHECK)
    ),
)
PLUGIN_NAMES = ("odd-plugin", "odd_plugin", "odd_backbone")


def replaceable_by(machine: Machine) -> tuple[str, ...]:
    """What the command may replace in its place; a finished run that is asked for again keeps its records."""
    derived = tuple(f"done/{name}" for name in ("records.jsonl", "results.csv", "index.html", "figures/*", "*.lock"))
    if machine.command == CLEAN:
        is_known = (
            "read" not in machine.oddity
        )  # of a cell whose record cannot be read, the weights may be all there is
        return (*(CHECKPOINTS if is_known else ()), "done/.lock")
    return (*OF_THE_BEGUN, *derived)


@contextmanager
def opened(machine: Machine) -> Iterator[dict[str, Any]]:
    streams = {name: make() for name, make in (machine.streams or {}).items()}
    try:
        yield streams
    finally:
        for descriptor in streams.values():
            os.close(descriptor)


def attack(place: Place, number: int) -> Result:
    """Run a command on an odd machine."""
    machine = MACHINES[number % len(MACHINES)]
    here = place.folder / f"machine-{number}"
    shutil.copytree(place.whole, here, symlinks=True)
    before = files_in(here)
    if machine.prepare:
        machine.prepare(here)
    environment = {
        name: value.replace("site", str(here / "site")) if value and name == "PYTHONPATH" else _below(here, name, value)
        for name, value in (machine.environment or {}).items()
    }
    with (
        opened(machine) as streams,
        Real(*machine.command, cwd=here, environment=environment, before=machine.before, **streams) as life,
    ):
        if machine.meanwhile:
            machine.meanwhile(here, life)
        attempt = life.end(LIMIT_S)
        orphans = life.orphans()
    faults = machine_faults(machine, attempt)
    faults += [f"processes left: {len(orphans)}"] if orphans else []
    open_again(here)
    faults += harm(before, files_in(here), replaceable_by(machine))
    shutil.rmtree(here, ignore_errors=True)
    return f"{machine.oddity}: {machine.command[0]}", attempt, faults


def _below(here: Path, name: str, value: str | None) -> str | None:
    """TMPDIR is written relative to the place."""
    return str(here / value) if value and name == "TMPDIR" else value


def machine_faults(machine: Machine, attempt: Attempt) -> list[str]:
    faults = faults_of(attempt, machine.statuses)
    if machine.streams or "closed" in machine.oddity or "bytes at most" in machine.oddity:
        faults = [fault for fault in faults if fault != "status 2 without a message"]  # there was no place for it
    if "plug-in" in machine.oddity and not any(name in attempt.stderr for name in PLUGIN_NAMES):
        faults.append("the plug-in is not named")
    if "plug-in" in machine.oddity and machine.command == LIST and "DiT-S/2" not in attempt.stdout:
        faults.append("the other backbones are not listed")
    return faults


def main(number: int) -> None:
    with open_to_all("machines") as folder, Warms(1) as warm:
        kind, attempt, faults = attack(Place(folder, warm), number)
    print(f"{kind}\n{attempt}faults: {'; '.join(faults) or 'none'}")


if __name__ == "__main__":
    main(int(sys.argv[1]))
