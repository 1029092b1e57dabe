"""Whatever a cell stores says whose it is: a file of one cell in another one's place is refused by name."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.run_folders import begun, new_folder, quiet
from tread_bench.cell.open import Job
from tread_bench.cell.run import run_cell
from tread_bench.core.errors import UserError
from tread_bench.runner.heartbeat import read_progress
from tread_bench.runner.options import Options
from tread_bench.runner.runner import run
from tread_bench.services.display import Lines
from tread_bench.suite.load import load_plan

SUITE = """\
name: toy
seeds: 2
base:
  backbone: {name: DiT, depth: 2, hidden: 8, heads: 1, patch: 4}
  training: {iterations: 4, batch: 4, checkpoint_every: 2, snapshots: [2]}
  metrics: {at: [2, 4], generate: false, validation_samples: 8, similarity_samples: 4}
timing: {pairs: 0}
rows:
  dense: {}
"""
OF_THE_RUNNER = {".lock", ".turn", ".numerics.log"}


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    path = tmp_path_factory.mktemp("suite") / "toy.yaml"
    path.write_text(SUITE)
    return path


@pytest.fixture(scope="module")
def trained(suite, tmp_path_factory):
    """The run folder of two cells that differ in their seed alone, each trained in this process."""
    plan = load_plan(suite)
    folder = begun(tmp_path_factory.mktemp("identity") / "run", plan, SUITE)
    for cell in plan.cells:
        outcome = run_cell(folder.root, cell.id, 1, quiet)
        assert outcome.status == "done", outcome.reason
    return folder


@pytest.fixture
def folder(trained, tmp_path):
    shutil.copytree(trained.root, tmp_path / "run")
    return new_folder(tmp_path / "run")


def two_cells(folder):
    first, second = sorted(path.name for path in (folder.root / "cells").iterdir())
    return first, second


def resumed(folder, cell_id):
    """What comes of a cell that is taken up again from its checkpoints."""
    (folder.cell(cell_id) / "record.json").unlink(missing_ok=True)
    return run_cell(folder.root, cell_id, 1, quiet)


def weights_read(folder, cell_id):
    job = Job.open(folder.root, cell_id)
    for iteration in (4, 2):
        job.load(iteration, job.trainer().network)


def checkpoints_read(folder, cell_id):
    outcome = resumed(folder, cell_id)
    if outcome.status == "failed":
        raise UserError(outcome.reason)


READERS = {
    "cell.json": lambda folder, cell: folder.existing_request(cell),
    "record.json": lambda folder, cell: folder.record(cell),
    "attempts.json": lambda folder, cell: folder.attempts(cell),
    "checkpoints": checkpoints_read,
    "weights": weights_read,
}


def exchange(first, second):
    aside = first.with_name("aside")
    first.rename(aside)
    second.rename(first)
    aside.rename(second)


@pytest.mark.parametrize("name", READERS)
def test_what_two_cells_have_exchanged_is_refused_by_name(folder, name):
    mine, other = two_cells(folder)
    READERS[name](folder, mine)
    exchange(folder.cell(mine) / name, folder.cell(other) / name)
    told = "is damaged or another file" if name == "weights" else f"belongs to cell {other}, not to {mine}"
    with pytest.raises(UserError, match=rf"cells/{mine}/{name}.* {told}"):
        READERS[name](folder, mine)


def test_the_progress_of_another_cell_is_nobody_s(folder):
    mine, other = two_cells(folder)
    assert read_progress(folder, mine) is not None
    exchange(folder.cell(mine) / "progress.json", folder.cell(other) / "progress.json")
    assert read_progress(folder, mine) is None


def test_weights_of_another_iteration_are_refused_by_name(folder):
    mine = two_cells(folder)[0]
    exchange(*(folder.cell(mine) / "weights" / f"{step}.safetensors" for step in (2, 4)))
    with pytest.raises(UserError, match=r"4\.safetensors is damaged or another file"):
        weights_read(folder, mine)


def test_a_run_refuses_strangers_before_it_changes_anything(suite, folder):
    mine, other = two_cells(folder)
    exchange(folder.cell(mine) / "record.json", folder.cell(other) / "record.json")
    before = contents(folder.root)
    with pytest.raises(UserError, match=rf"belongs to cell {other}, not to {mine}"):
        run(load_plan(suite), SUITE, folder.root, Options(), Lines(quiet))
    assert contents(folder.root) == before


def contents(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file() and path.name not in OF_THE_RUNNER}
