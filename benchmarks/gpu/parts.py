"""The parts of acceptance on a GPU, one after another. What fails keeps its reason, and the next part runs."""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import PIPE, STDOUT, Popen
from tempfile import TemporaryDirectory

from benchmarks.gpu.device import gpus
from benchmarks.gpu.document import PartResult, SpeedRun, Status
from benchmarks.processes import CHECKOUT, tread_bench
from tread_bench.core.errors import UserError, failure_text
from tread_bench.model.losses.repa.family import RepaOptions
from tread_bench.runner.folder import RunFolder
from tread_bench.runner.sources import export_of
from tread_bench.suite.load import load_plan

DEVICE = "cuda"
REGRESSION = CHECKOUT / "suites" / "regression.yaml"
BASELINE = CHECKOUT / "suites" / "baselines" / "regression.json"
SPEED = CHECKOUT / "suites" / "gpu_speed.yaml"
ENCODERS = CHECKOUT / "benchmarks" / "gpu" / "encoders.yaml"
IMAGES = (64, 256)
KERNEL_TESTS = ("pytest", "-m", "gpu", "-q")
CHECKED: dict[int, Status] = {0: "done", 1: "failed", 3: "inconclusive"}  # by the exit status of `ci check`
Ended = tuple[Status, str]  # how a part ended, and what it found, or why it did not


@dataclass
class Acceptance:
    """What runs write to, and what was timed so far."""

    out: Path
    runs: list[SpeedRun] = field(default_factory=list)


def results_of(acceptance: Acceptance) -> Iterator[PartResult]:
    """Run every part."""
    for part in PARTS:
        name = part.__name__.replace("_", " ")
        print(f"{name} ...", file=sys.stderr)
        began = time.perf_counter()
        try:
            status, reason = part(acceptance)
        except Exception as error:
            print(traceback.format_exc(), file=sys.stderr)
            status, reason = "failed", failure_text(error)
        seconds = round(time.perf_counter() - began, 1)
        yield PartResult(name=name, status=status, reason=reason, seconds=seconds)


def kernels(acceptance: Acceptance) -> Ended:
    """Kernels, and what else needs a GPU, against references."""
    status, said = told([sys.executable, "-m", *KERNEL_TESTS])
    return "failed" if status else "done", said.strip("= ")


def regression(acceptance: Acceptance) -> Ended:
    """Run the suite of the gate."""
    status, said = told(tread_bench("run", REGRESSION, "--device", DEVICE, "--out", acceptance.out / "regression"))
    return ("failed", said) if status else ("done", "")


def check(acceptance: Acceptance) -> Ended:
    """Hold that run against its baseline; it tells failed cells, so it comes after a run that failed, too."""
    if not BASELINE.exists():
        return "skipped", "no baseline: CONTRIBUTING.md says how a run becomes one"
    options = ("--baseline", BASELINE, "--junit", acceptance.out / "check.xml")
    status, said = told(tread_bench("ci", "check", acceptance.out / "regression", *options))
    return CHECKED.get(status, "failed"), said


def host(acceptance: Acceptance) -> Ended:
    """Time steps of DiT, compiled as a whole and captured, with few and many images: what the host takes of them."""
    rows = ",".join(row for row in load_plan(SPEED).rows if row.startswith("DiT"))
    failed = []
    for way in ("network", "captured"):
        for images in IMAGES:
            chosen = ("--set", f"compute.compile={way}", "--set", f"training.batch={images}")
            status, said = timed(acceptance, SPEED, 1, "--rows", rows, *chosen, name=f"{way}-{images}")
            if status == "failed":
                failed.append(f"{way}, {images} images: {said}")
    return ("failed", "; ".join(failed)) if failed else ("done", "")


def speed(acceptance: Acceptance) -> Ended:
    """Time steps of other families, in one process."""
    rows = ",".join(row for row in load_plan(SPEED).rows if not row.startswith("DiT"))
    return timed(acceptance, SPEED, 1, "--rows", rows)


def encoders(acceptance: Acceptance) -> Ended:
    """Time a step with its encoder, whose weights are random, beside that of the denoiser alone."""
    with TemporaryDirectory() as folder:
        write_random_encoders(Path(folder))
        return timed(acceptance, ENCODERS, 1, "--data-root", folder)


def two_processes(acceptance: Acceptance) -> Ended:
    """Time steps of two processes, each with as many images as one process had."""
    if gpus() < 2:
        return "skipped", "two processes need two GPUs, and there is one"
    batch = load_plan(SPEED).cells[0].cell.training.batch
    return timed(acceptance, SPEED, 2, "--set", "limits.processes_per_cell=2", "--set", f"training.batch={2 * batch}")


PARTS: tuple[Callable[[Acceptance], Ended], ...] = (kernels, host, regression, check, speed, encoders, two_processes)


def timed(acceptance: Acceptance, suite: Path, processes: int, *more: object, name: str = "") -> Ended:
    """Run a suite of rows that are only timed, and keep what its records say."""
    # The run.
    folder = acceptance.out / (name or f"{suite.stem}-{processes}")
    status, said = told(tread_bench("run", suite, "--device", DEVICE, "--out", folder, *more))

    # Its records, also where some rows have failed.
    try:
        run, _ = export_of(RunFolder(folder))
    except UserError:
        return "failed", said
    acceptance.runs.append(SpeedRun(processes=processes, run=run))
    failed = sum(record.status != "done" for record in run.records)
    if failed:
        return "failed", f"{failed} of {len(run.records)} rows failed"
    return ("failed", said) if status else ("done", "")


def told(command: list[str]) -> tuple[int, str]:
    """Run a command, with all that it says on stderr; its exit status, and the last line that it said."""
    last = ""
    with Popen(command, cwd=CHECKOUT, stdout=PIPE, stderr=STDOUT, text=True, errors="replace") as process:
        assert process.stdout
        for line in process.stdout:
            print(line, end="", file=sys.stderr)
            last = line.strip() or last
    return process.returncode, last or f"exit status {process.returncode}"


def write_random_encoders(folder: Path) -> None:
    """Write the files of weights that rows with an encoder read."""
    import timm
    from safetensors.torch import save_file

    for planned in load_plan(ENCODERS, data_root=folder, allows_missing=True).cells:
        (repa,) = planned.cell.auxiliary
        assert isinstance(repa, RepaOptions) and repa.model and repa.weights
        encoder = timm.create_model(repa.model, pretrained=False, num_classes=0)
        save_file(encoder.state_dict(), repa.weights)
