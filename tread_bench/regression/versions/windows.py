"""One window of a version: a fresh process that runs the suite briefly and times every row alone."""

from __future__ import annotations

import math
import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tread_bench.core.errors import UserError
from tread_bench.core.stored.records import Record
from tread_bench.regression.baseline.gpu_rule import moved
from tread_bench.runner.folder import RunFolder

LEAST_STEPS = 8  # timed steps of a row in one window; their median counts
MOST_STEPS = 200
WINDOW_MS = 1000.0  # that the steps of the fastest row take together: a short disturbance is never a whole window
_BRIEF = (
    "training.iterations=1",
    "metrics.at=[1]",
    "metrics.num_samples=32",
    "metrics.validation_samples=16",
    "metrics.similarity_samples=8",
    "metrics.kid_subset_size=16",
    "sampling.steps=1",
    "timing.warmup=2",
    "seeds=1",
)


@dataclass(frozen=True, slots=True)
class Version:
    """One of the two versions: its name for people, and the Python that has it installed."""

    name: str
    python: Path


@dataclass(frozen=True, slots=True)
class Subject:
    """What both versions run: a suite with overrides, on a device; `data_root` as for `run`."""

    suite: Path
    overrides: Sequence[str] = ()
    device: str = "cpu"
    data_root: Path | None = None


def step_times(version: Version, subject: Subject, folder: Path, steps: int = LEAST_STEPS) -> dict[str, float]:
    """Median over `steps` steps of the step time in ms of every row, from a run in `folder`.

    Raises:
        UserError: the run fails.
    """
    suite = subject.suite
    command = [str(version.python), "-m", "tread_bench", "run", str(suite), "--out", str(folder)]
    command += ["--device", subject.device]
    for setting in settings(subject.overrides, steps):
        command += ["--set", setting]
    if subject.data_root is not None:
        command += ["--data-root", str(subject.data_root)]
    status, output = _run(command)
    if status:
        last = "\n".join(output.strip().splitlines()[-8:])
        raise UserError(f"the {version.name} version cannot run {suite.name} (status {status}):\n{last}")
    return read_step_times(folder)


def settings(overrides: Sequence[str], steps: int = LEAST_STEPS) -> list[str]:
    """Return the overrides of a window's suite."""
    return [*_BRIEF, f"timing.pairs={steps}", *overrides]


def _run(command: Sequence[str]) -> tuple[int, str]:
    """Exit status and output of a command, run where this one was, for relative paths; an interrupt ends it first."""
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}  # it would precede both versions
    environment = {**own, "OMP_NUM_THREADS": "1", "PYTHONSAFEPATH": "1"}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment) as process:
        try:
            stdout, stderr = process.communicate()
        except BaseException:
            process.terminate()
            raise
    return process.returncode, stderr or stdout


def steps_for(times: Mapping[str, float]) -> int:
    """Return how many steps a window has, by step times in ms that were measured first."""
    return min(max(LEAST_STEPS, math.ceil(WINDOW_MS / min(times.values(), default=WINDOW_MS))), MOST_STEPS)


def read_step_times(folder: Path) -> dict[str, float]:
    """Row -> median step time in ms, from the records of a run."""
    return {record.row: record.timing.step_time_ms for record in _records(folder) if record.timing}


def disturbances(folders: Iterable[Path]) -> dict[str, list[str]]:
    """Row -> what happened to the GPU between both readings by its records, a text per disturbed window."""
    found: dict[str, list[str]] = {}
    for folder in folders:
        for record in _records(folder):
            changes = moved(record.timing.gpu_before, record.timing.gpu_after) if record.timing else []
            if changes:
                found.setdefault(record.row, []).append(", ".join(changes))
    return found


def _records(root: Path) -> list[Record]:
    folder = RunFolder(root)
    return folder.records(folder.existing_plan().references)
