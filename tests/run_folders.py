"""Run folders that no command has made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from tread_bench.cell.numerics import resolve_choices
from tread_bench.core.config.compute import Compute
from tread_bench.core.stored.documents import Choices, initial_record
from tread_bench.core.stored.records import DataFile, TimingFigures
from tread_bench.runner.folder import RunFolder
from tread_bench.runner.prepare import write_plan
from tread_bench.runner.runner import placed
from tread_bench.suite.load import load_plan
from tread_bench.suite.plan import Plan, PlannedCell

CHOICES = Choices(numerics={"device": "cpu", "threads": 1}, versions={})
COST = {
    "params": 10, "trainable_params": 10, "tokens_per_block": [4] * 4, "dense_tokens": 4, "forward_macs": 8,
    "dense_forward_macs": 8, "attention_macs": 1, "scan_macs": 0, "train_step_macs": 24, "block_macs": [2] * 4,
}  # fmt: skip


def figures_of_speed(**figures: float) -> TimingFigures:
    """Of steps of a millisecond."""
    return TimingFigures(
        step_time_ms=1, step_time_low_ms=1, step_time_high_ms=1, images_per_s=1, speedup=1, speedup_low=1,
        speedup_high=1, step_times_ms=[1], reference_step_times_ms=[1], batch=16, warmup=1, **figures,
    )  # fmt: skip


def new_folder(root: Path) -> RunFolder:
    """An empty one."""
    root.mkdir(parents=True, exist_ok=True)
    return RunFolder(root)


def planned(folder: Path, text: str) -> Plan:
    """The plan of a suite that is written into a folder."""
    (folder / "toy.yaml").write_text(text)
    return load_plan(folder / "toy.yaml")


def ready(
    root: Path,
    plan: Plan,
    text: str = "",
    cells: Sequence[PlannedCell] = (),
    files: Mapping[str, DataFile] | None = None,
) -> RunFolder:
    """The folder of a plan, or of some of its cells, of which nothing has begun."""
    folder = new_folder(root)
    write_plan(plan, cells or plan.cells, text, folder, CHOICES, files=files)
    return folder


def end(folder: RunFolder, cell_id: str, **fields: Any) -> None:
    """Write the record of a planned cell, which is done unless `fields` say otherwise."""
    request, plan = folder.existing_request(cell_id), folder.existing_plan()
    folder.write_record(initial_record(request, plan, **{"status": "done", **fields}))


def begun(
    root: Path, plan: Plan, text: str, cells: Sequence[PlannedCell] = (), numerics: Mapping[str, Any] | None = None
) -> RunFolder:
    """One with the documents of a plan, or of some of its cells, and no results; `numerics` replace this machine's."""
    folder = new_folder(root)
    choices = resolve_choices(Compute(), "cpu")
    choices = choices.model_copy(update={"numerics": choices.numerics.model_copy(update=dict(numerics or {}))})
    write_plan(plan, cells or plan.cells, text, folder, choices)
    return folder


def train_all(folder: RunFolder, plan: Plan) -> RunFolder:
    """The folder after all cells, in the order in which a run starts them."""
    from tread_bench.cell.run import run_cell  # needs torch

    for cell in chain.from_iterable(placed(plan.cells)):
        run_cell(folder.root, cell.id, 1, quiet)
    return folder


def quiet(*news: object, **style: object) -> None:
    """Nobody watches."""


def put(path: Path, content: str) -> None:
    """A file, and the folders that it lies in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
