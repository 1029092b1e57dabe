"""What is derived from a run's records is made again by the same command, whatever of it is missing."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.run_folders import CHOICES, COST, new_folder
from tests.toy_suite import toy_suite, write_suite
from tests.yardstick import slowness
from tread_bench.cli.app import app
from tread_bench.core.stored.documents import initial_record
from tread_bench.core.stored.records import CostFigures, Evaluation
from tread_bench.runner.folder import RunFolder
from tread_bench.runner.prepare import write_plan
from tread_bench.suite.load import load_plan


@pytest.fixture(scope="module")
def suite(tmp_path_factory) -> Path:
    return write_suite(tmp_path_factory.mktemp("suite"), toy_suite(iterations=40, checkpoint_every=5, pairs=0))


@pytest.fixture(scope="module")
def whole(suite, tmp_path_factory) -> RunFolder:
    """The folder of a finished run, with all that is derived from it."""
    plan, folder = load_plan(suite), new_folder(tmp_path_factory.mktemp("derived") / "run")
    write_plan(plan, plan.cells, suite.read_text(), folder, CHOICES)
    for cell in plan.cells:
        evaluation = Evaluation(
            iteration=40, train_seconds=1, validation_loss=1 + cell.seed, validation_loss_per_time={}, fid=9 + cell.seed
        )
        done = {"status": "done", "cost": CostFigures(**COST), "evaluations": [evaluation]}
        initial = initial_record(folder.existing_request(cell.id), folder.plan())
        folder.write_record(initial.model_copy(update=done))
    again(suite, folder)
    return folder


@pytest.fixture
def folder(whole, tmp_path) -> RunFolder:
    shutil.copytree(whole.root, tmp_path / "run")
    return new_folder(tmp_path / "run")


def again(suite: Path, folder: RunFolder) -> str:
    done = CliRunner().invoke(app, ["run", str(suite), "--out", str(folder.root)])
    assert done.exit_code == 0, done.output
    return done.stdout


def derived(folder: RunFolder) -> dict[str, bytes]:
    """All that a run folder holds beside its plan and its cells."""
    files = [path for path in folder.root.rglob("*") if path.is_file() and not path.name.startswith(".")]
    found = {str(path.relative_to(folder.root)): path.read_bytes() for path in files}
    return {name: text for name, text in found.items() if name != "plan.json" and not name.startswith("cells/")}


def times(folder: RunFolder) -> dict[str, int]:
    return {name: (folder.root / name).stat().st_mtime_ns for name in derived(folder)}


KINDS = ["suite.yaml", "records.jsonl", "results.csv", "index.html", "figures/*.svg"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("harm", ["missing", "empty", "older"])
def test_what_is_missing_empty_or_older_than_the_records_is_made_again(suite, folder, kind, harm):
    again(suite, folder)
    before = derived(folder)
    harmed = sorted(folder.root.glob(kind))[-1]
    if harm == "missing":
        harmed.unlink()
    else:
        harmed.write_bytes(b"" if harm == "empty" else b"of an earlier state")
        os.utime(harmed, (0, 0) if harm == "older" else None)
    told = again(suite, folder)
    assert derived(folder) == before
    if kind != "suite.yaml":
        assert "made again" in told and str(harmed.relative_to(folder.root)) in told


def test_without_anything_missing_nothing_is_written_and_that_at_once(suite, folder):
    again(suite, folder)
    before, start = times(folder), time.process_time()
    assert "nothing to do" in again(suite, folder)
    assert times(folder) == before
    assert time.process_time() - start < 2 * slowness()
