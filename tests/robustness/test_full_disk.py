"""A disk that fails at every write of a toy cell and of its runner: nothing torn, the same end on a repaired disk."""

from __future__ import annotations

import errno
import json
import shutil
import time
from pathlib import Path

import pytest
from full_disk import Disk, failing

from tread_bench.cell.run import run_cell
from tread_bench.core.errors import UserError
from tread_bench.core.stored.files import TEMPORARY, temporaries
from tread_bench.core.stored.records import Record
from tread_bench.runner import heartbeat
from tread_bench.runner.folder import RunFolder
from tread_bench.runner.options import Options
from tread_bench.runner.runner import run
from tread_bench.services.display import Lines
from tread_bench.suite.load import load_plan

ERRORS = (errno.ENOSPC, errno.EIO, errno.EFBIG)
MOST_WRITES = 100
SUITE = """\
name: toy
base:
  backbone: {name: DiT, depth: 1, hidden: 8, heads: 1, patch: 4}
  training: {iterations: 2, batch: 4, checkpoint_every: 1, learning_rate: 1e-3}
  sampling: {steps: 1}
  metrics: {num_samples: 10, validation_samples: 4, kid_subset_size: 4, kid_subsets: 2, similarity_samples: 2}
timing: {pairs: 0}
"""
NOTE = TEMPORARY.format("progress")  # what a note is called until it is in its place
OF_THE_CLOCK = {"train_seconds", "data_wait_seconds", "seconds", "attempts"}


def quiet(*news, **style):
    """Nobody watches."""


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    path = tmp_path_factory.mktemp("suite") / "toy.yaml"
    path.write_text(SUITE)
    return load_plan(path)


@pytest.fixture(scope="module")
def cell_id(plan):
    (cell,) = plan.cells
    return cell.id


@pytest.fixture(scope="module")
def begun(plan, cell_id, tmp_path_factory):
    """A run folder whose one cell is planned and not trained."""
    root = tmp_path_factory.mktemp("begun") / "run"
    run(plan, SUITE, root, Options(), Lines(quiet))
    kept = {"cell.json"}
    folder = RunFolder(root).cell(cell_id)
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir():
            path.rmdir()
        elif path.name not in kept:
            path.unlink()
    return root


def copied(folder, place):
    shutil.rmtree(place, ignore_errors=True)
    return shutil.copytree(folder, place)


def timeless(value):
    """Without what a clock says."""
    if isinstance(value, dict):
        return {key: timeless(item) for key, item in value.items() if key not in OF_THE_CLOCK}
    return [timeless(item) for item in value] if isinstance(value, list) else value


def ending(folder: RunFolder, cell_id: str) -> tuple[dict, dict[str, bytes]]:
    """What the cell came to: its record, and its pictures bit by bit."""
    record = timeless(json.loads((folder.cell(cell_id) / "record.json").read_text()))
    assert record["status"] == "done", record["reason"]
    return record, {path.name: path.read_bytes() for path in folder.cell(cell_id).rglob("*.png")}


def is_harmless(operation: str) -> bool:
    """To make a folder that is there already may fail unnoticed, and so may a note for people who look."""
    return operation.startswith("mkdir ") or NOTE in operation


def assert_nothing_torn(root: Path):
    for path in root.rglob("*.json"):
        content = json.loads(path.read_text())
        if path.name == "record.json":
            Record.model_validate(content)


def fail_at_each_write(begun, place, work, refusal, end, errors_at) -> list[str]:
    """Work on a disk that fails at every write in turn, then on a repaired one; the writes of undisturbed work.

    Args:
        work: what is done with a copy of `begun`; a `refusal` that it raises says that the disk failed.
        end: what the work came to; the same whatever failed before.
        errors_at: the errors that the write of a number raises, one after another.
    """
    # Undisturbed.
    start = time.perf_counter()
    whole = copied(begun, place / "whole")
    with failing(Disk(whole)) as undisturbed:
        work(whole)
    expected = end(whole)
    writes = undisturbed.done

    # With each failure.
    told = tried = 0
    for n, operation in enumerate(writes, 1):
        for error in errors_at(n):
            root = copied(begun, place / "run")
            was_told = False
            with failing(Disk(root, n, error)) as disk:
                try:
                    work(root)
                except refusal:
                    was_told = True
            assert was_told or is_harmless(disk.done[n - 1])
            assert_nothing_torn(root)
            work(root)
            assert not temporaries(root)
            assert end(root) == expected, operation
            told += was_told
            tried += 1
    seconds = time.perf_counter() - start
    print(f"{tried} errors at {len(writes)} writes: {told} told, all resumed to the same end; {seconds:.0f} s")
    return writes


@pytest.mark.full
def test_a_cell_survives_a_failure_of_the_disk_at_every_fourth_write(begun, cell_id, tmp_path, monkeypatch):
    monkeypatch.setattr(heartbeat, "EVERY_S", float("inf"))  # a slow cell writes no more often than a fast one

    def work(root):
        run_cell(root, cell_id, 1, quiet)

    def end(root):
        return ending(RunFolder(root), cell_id)

    def errors_at(n):
        return [ERRORS[n % len(ERRORS)]] if n % 4 == 1 else []

    writes = fail_at_each_write(begun, tmp_path, work, OSError, end, errors_at)
    assert 20 < len(writes) <= MOST_WRITES, writes
    assert sum(NOTE in operation for operation in writes) >= 9  # three notes of three operations


@pytest.mark.full
def test_a_runner_survives_a_failure_of_the_disk_at_every_write(begun, plan, cell_id, tmp_path):
    trained = copied(begun, tmp_path / "trained")
    run_cell(trained, cell_id, 1, quiet)
    (trained / "plan.json").unlink()

    def work(root):
        run(plan, SUITE, root, Options(), Lines(quiet))

    def end(root):
        return ending(RunFolder(root), cell_id)

    writes = fail_at_each_write(trained, tmp_path, work, UserError, end, lambda n: [ERRORS[n % len(ERRORS)]])
    assert 10 < len(writes) <= MOST_WRITES, writes
