"""What an attack on the command line came to, and what must hold after every one of them."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatch
from hashlib import sha256
from pathlib import Path

from warm import Attempt

CHECKOUT = Path(__file__).parents[2]
LONGEST = 5000  # characters of all messages of one command
TRACES = ("Traceback (most recent call last)", "Exception ignored in", "Fatal Python error")


def faults_of(attempt: Attempt, statuses: Collection[int]) -> list[str]:
    """What is wrong with how a command ended: tracebacks, another status, a refusal without a readable reason."""
    faults = [f"{name}: {trace}" for name, text in attempt.streams() for trace in TRACES if trace in text]
    if attempt.status is None:
        return [*faults, f"still running after {attempt.seconds:.0f} s"]
    if attempt.status not in statuses:
        faults.append(f"status {attempt.status}, not one of {sorted(statuses)}")
    if attempt.status == 2:
        faults += refusal_faults(attempt.stderr)
    return faults


def refusal_faults(message: str) -> Iterator[str]:
    """A refusal says something, not for ever, and cannot steer a terminal."""
    if not message.strip():
        yield "status 2 without a message"
    if len(message) > LONGEST:
        yield f"a message of {len(message)} characters"
    if unprintable := sorted({c for c in message if not c.isprintable() and c != "\n"}):
        yield f"a message with the control characters {unprintable}"


# Files of the user's


Files = Mapping[str, str]  # relative path -> what is there


def files_in(folder: Path) -> dict[str, str]:
    """Everything below a folder: hashes of files, targets of links, kinds of the rest. Follows no link."""
    found = {}
    for place, folders, names in os.walk(folder):
        for name in (*folders, *names):
            path = Path(place, name)
            found[path.relative_to(folder).as_posix()] = _what_is(path)
    return found


def _what_is(path: Path) -> str:
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        return f"link to {os.readlink(path)}"
    return sha256(path.read_bytes()).hexdigest() if stat.S_ISREG(mode) else stat.filemode(mode)[0]


def losses(before: Files, now: Files, replaceable: Collection[str] = ()) -> list[str]:
    """Files that have gone or changed, other than those that a pattern of `replaceable` allows."""
    lost = [name for name, what in before.items() if now.get(name) != what]
    return sorted(name for name in lost if not any(fnmatch(name, pattern) for pattern in replaceable))


def harm(before: Files, now: Files, replaceable: Collection[str] = ()) -> list[str]:
    """What a command has done to files that are not its own: those that it lost, and those that it put among them."""
    came = [name for name in now.keys() - before.keys() if name.startswith("mine/")]
    return [
        *(f"lost: {name}" for name in losses(before, now, replaceable)),
        *(f"came into a folder of the user's: {name}" for name in came),
    ]


@contextmanager
def open_to_all(prefix: str) -> Iterator[Path]:
    """A temporary folder that processes without root's rights may enter and write to."""
    folder = Path(tempfile.mkdtemp(prefix=f"tread-bench-{prefix}-"))
    folder.chmod(0o777)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


# Many attacks


Result = tuple[str, Attempt, list[str]]  # its kind, how the command ended, what is wrong


def attack_all(script: str, attack: Callable[[int], Result], numbers: Sequence[int]) -> Tally:
    """Make the attacks of these numbers, as many at a time as there are processors."""
    tally = Tally(script)
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for number, (kind, attempt, faults) in zip(numbers, pool.map(attack, numbers), strict=True):
            tally.count(number, kind, attempt.status, faults)
    return tally


@dataclass
class Tally:
    """How many attacks of each kind there were, and which of them did harm.

    Args:
        script: the file here that makes one of the attacks again, by its number.
    """

    script: str
    tries: Counter[str] = field(default_factory=Counter)
    statuses: Counter[str] = field(default_factory=Counter)
    faults: dict[int, list[str]] = field(default_factory=dict)

    def count(self, number: int, kind: str, status: object, faults: list[str]) -> None:
        self.tries[kind] += 1
        self.statuses[str(status)] += 1
        if faults:
            self.faults[number] = [kind, *faults]

    def __str__(self) -> str:
        kinds = "\n".join(f"  {count:5d}  {kind}" for kind, count in sorted(self.tries.items()))
        statuses = ", ".join(f"{status}: {count}" for status, count in sorted(self.statuses.items()))
        failures = "\n".join(
            f"  python tests/robustness/{self.script} {number}: {'; '.join(faults)}"
            for number, faults in sorted(self.faults.items())
        )
        return f"{self.tries.total()} tries, {len(self.faults)} with faults; exit statuses {statuses}\n{kinds}" + (
            f"\nfaults, each with the command that shows it again:\n{failures}" if failures else ""
        )
