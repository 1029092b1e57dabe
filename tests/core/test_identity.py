"""Whatever a cell stores says whose it is: a file of one cell in another one's place is refused by name."""

from __future__ import annotations

import shutil

import pytest

from tests.run_folders import begun, new_folder, planned, quiet
from tests.toy_suite import toy_suite
from tread_bench.cell.open import Job
from tread_bench.cell.run import run_cell
from tread_bench.core.errors import UserError
from tread_bench.runner.heartbeat import read_progress
from tread_bench.runner.options import Options
from tread_bench.runner.runner import run
from tread_bench.services.display import Lines

SUITE = toy_suite(4, 2, batch=4, metrics="generate: false, validation_samples: 8, similarity_samples: 4", pairs=0)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The plan and the run folder of two cells that differ in their seed alone, each trained in this process."""
    root = tmp_path_factory.mktemp("identity")
    plan = planned(root, SUITE)
    folder = begun(root / "run", plan, SUITE)
    for cell in plan.rows["dense"]:
        outcome = run_cell(folder.root, cell.id, 1, quiet)
        assert outcome.status == "done", outcome.reason
    return plan, folder


@pytest.fixture
def folder(trained, tmp_path):
    shutil.copytree(trained[1].root, tmp_path / "run")
    return new_folder(tmp_path / "run")


@pytest.fixture
def two_cells(trained):
    return [cell.id for cell in trained[0].rows["dense"]]


def weights_read(folder, cell_id):
    job = Job.open(folder.root, cell_id)
    job.load(4, job.trainer().network)


def checkpoints_read(folder, cell_id):
    (folder.cell(cell_id) / "record.json").unlink(missing_ok=True)
    outcome = run_cell(folder.root, cell_id, 1, quiet)
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
def test_what_two_cells_have_exchanged_is_refused_by_name(folder, two_cells, name):
    mine, other = two_cells
    READERS[name](folder, mine)
    exchange(folder.cell(mine) / name, folder.cell(other) / name)
    told = "is damaged or another file" if name == "weights" else f"belongs to cell {other}, not to {mine}"
    with pytest.raises(UserError, match=rf"cells/{mine}/{name}.* {told}"):
        READERS[name](folder, mine)


def test_the_progress_of_another_cell_is_nobody_s(folder, two_cells):
    mine, other = two_cells
    assert read_progress(folder, mine) is not None
    exchange(folder.cell(mine) / "progress.json", folder.cell(other) / "progress.json")
    assert read_progress(folder, mine) is None


def test_a_run_refuses_strangers_before_it_changes_anything(trained, folder, two_cells):
    mine, other = two_cells
    exchange(folder.cell(mine) / "record.json", folder.cell(other) / "record.json")
    before = {path: path.read_bytes() for path in folder.root.rglob("*.*") if path.is_file()}
    with pytest.raises(UserError, match=rf"belongs to cell {other}, not to {mine}"):
        run(trained[0], SUITE, folder.root, Options(), Lines(quiet))
    assert {path: path.read_bytes() for path in before} == before
