"""One window of a version: a fresh process that runs the suite briefly and times every row alone."""

from __future__ import annotations

import csv
import math
import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tread_bench.errors import UserError
from tread_bench.gate.gpu_rule import moved
from tread_bench.store import RunFolder

LEAST_STEPS, MOST_STEPS = 8, 200  # timed steps of a row in one window; their median counts
WINDOW_MS = 1000.0  # that the steps of the fastest row take together, so that no hiccup of the machine is a window
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
    """One of the two: how people call it, and the Python that has it."""

    name: str
    python: Path


def step_times(
    version: Version, suite: Path, overrides: list[str], device: str, folder: Path, steps: int = LEAST_STEPS
) -> dict[str, float]:
    """Median over `steps` steps of the step time in ms of every row, from a run in `folder`.

    Raises:
        UserError: the run fails.
    """
    asked = [part for setting in (*_BRIEF, f"timing.pairs={steps}", *overrides) for part in ("--set", setting)]
    where = [str(suite), "--out", str(folder), "--device", device]
    command = [str(version.python), "-m", "tread_bench", "run", *where, *asked]
    status, told = _ended(command, folder.parent)
    if status:
        last = "\n".join(told.strip().splitlines()[-8:])
        raise UserError(f"the {version.name} version cannot run {suite.name} (status {status}):\n{last}")
    return read_step_times(folder / "results.csv")


def _ended(command: Sequence[str], folder: Path) -> tuple[int, str]:
    """Status and words of a command that is run in `folder`; an interrupt of this process ends it first."""
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}  # goes before both versions
    environment = {**own, "OMP_NUM_THREADS": "1", "PYTHONSAFEPATH": "1"}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, cwd=folder, env=environment) as process:
        try:
            stdout, stderr = process.communicate()
        except BaseException:
            process.terminate()
            raise
    return process.returncode, stderr or stdout


def steps_for(times: Mapping[str, float]) -> int:
    """How many steps a window has, by the step times in ms of a first look."""
    return min(max(LEAST_STEPS, math.ceil(WINDOW_MS / min(times.values(), default=WINDOW_MS))), MOST_STEPS)


def read_step_times(path: Path) -> dict[str, float]:
    """Median step time in ms of every row, from a results.csv."""
    with open(path, newline="", encoding="utf-8") as file:
        lines = [line for line in csv.DictReader(file) if line["step_time_ms"]]
    return {row_of(line["cell"]): float(line["step_time_ms"]) for line in lines}


def disturbances(folders: Iterable[Path]) -> dict[str, list[str]]:
    """Row -> what its records say befell the GPU between both readings, a text per window in which something did."""
    found: dict[str, list[str]] = {}
    for folder in map(RunFolder, folders):
        for record in folder.records(folder.existing_plan()["references"]):
            timing = record.timing
            if timing and (told := moved(timing.gpu_before, timing.gpu_after)):
                found.setdefault(row_of(record.cell), []).append(", ".join(told))
    return found


def row_of(cell: str) -> str:
    """A cell's id without its digest, which differs between versions: `tread-2-8-s0`."""
    return cell.rpartition("-")[0]
