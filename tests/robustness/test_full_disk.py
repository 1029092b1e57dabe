"""A disk that fails at every write of a toy cell and of its runner: nothing torn, the same end on a repaired disk."""

from __future__ import annotations

import errno
import json
import shlex
import shutil
import subprocess
import time
from pathlib import Path

import pytest
import torch
from full_disk import Disk, failing

from tests.command_line import command, tread_bench
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


@pytest.fixture(autouse=True)
def same_precision():
    before = torch.get_float32_matmul_precision()
    yield
    torch.set_float32_matmul_precision(before)


def copied(folder, place):
    shutil.rmtree(place, ignore_errors=True)
    return shutil.copytree(folder, place)


def timeless(value):
    """Without what a clock says."""
    if isinstance(value, dict):
        return {key: timeless(item) for key, item in value.items() if key not in OF_THE_CLOCK}
    return [timeless(item) for item in value] if isinstance(value, list) else value


def ending(folder: RunFolder, cell_id: str, name: str) -> tuple[dict, dict[str, bytes]]:
    """What the cell came to: its record, and its pictures bit by bit."""
    record = timeless(json.loads((folder.cell(cell_id) / name).read_text()))
    assert record["status"] == "done", record["reason"]
    return record, {path.name: path.read_bytes() for path in folder.cell(cell_id).rglob("*.png")}


def is_harmless(operation: str) -> bool:
    """To make a folder that is there already may fail unnoticed, and so may a note for people who look."""
    return operation.startswith("mkdir ") or NOTE in operation


def assert_nothing_torn(root: Path):
    for path in root.rglob("*.json"):
        content = json.loads(path.read_text())
        if path.name in ("record.json", "outcome.json"):
            Record.model_validate(content)


def resumed(root, cell_id):
    """The cell after another attempt on a repaired disk; what it has trained is kept."""
    folder = RunFolder(root)
    run_cell(root, cell_id, 1, quiet)
    assert not temporaries(root)
    return ending(folder, cell_id, "outcome.json")


@pytest.mark.slow
@pytest.mark.parametrize(
    "at_each_write",
    [
        pytest.param(lambda n: [ERRORS[n % len(ERRORS)]] if n % 4 == 1 else [], id="every fourth write"),
        pytest.param(lambda n: ERRORS, id="every error", marks=pytest.mark.endurance),
    ],
)
def test_a_cell_survives_a_failure_of_the_disk_at_every_write(begun, cell_id, tmp_path, monkeypatch, at_each_write):
    monkeypatch.setattr(heartbeat, "EVERY_S", float("inf"))  # a slow cell writes no more often than a fast one
    start = time.perf_counter()
    whole = copied(begun, tmp_path / "whole")
    with failing(Disk(whole)) as disk:
        run_cell(whole, cell_id, 1, quiet)
    expected, writes = ending(RunFolder(whole), cell_id, "outcome.json"), len(disk.done)
    assert 20 < writes <= MOST_WRITES, disk.done
    assert sum(NOTE in operation for operation in disk.done) >= 9  # three notes of three operations
    told = tried = 0
    for n in range(1, writes + 1):
        for error in at_each_write(n):
            tried += 1
            root = copied(begun, tmp_path / "run")
            with failing(Disk(root, n, error)) as disk:
                try:
                    run_cell(root, cell_id, 1, quiet)
                    was_told = False
                except OSError:
                    was_told = True
            assert was_told or is_harmless(disk.done[n - 1])
            told += was_told
            assert_nothing_torn(root)
            assert resumed(root, cell_id) == expected, disk.done[n - 1]
    seconds = time.perf_counter() - start
    print(f"{tried} errors at {writes} writes of a cell: {told} told, all resumed to the same bits; {seconds:.0f} s")


@pytest.mark.slow
def test_a_limit_of_file_size_ends_a_run_which_resumes_without_it(tmp_path):
    (tmp_path / "toy.yaml").write_text(SUITE.replace("hidden: 8", "hidden: 64"))
    asked = shlex.join(command("run", "toy.yaml", "--out", "run"))
    limited = subprocess.run(["bash", "-c", f"ulimit -f 16; {asked}"], cwd=tmp_path, capture_output=True, text=True)
    assert limited.returncode == 2 and "safetensors: File too large; what is finished is kept" in limited.stderr
    assert not list(tmp_path.glob("run/cells/*/*come.json")) and not list(tmp_path.rglob("*.tmp"))
    assert tread_bench("run", "toy.yaml", "--out", "run", cwd=tmp_path).returncode == 0


@pytest.mark.slow
def test_a_runner_survives_a_failure_of_the_disk_at_every_write(begun, plan, cell_id, tmp_path):
    start = time.perf_counter()
    trained = copied(begun, tmp_path / "trained")
    run_cell(trained, cell_id, 1, quiet)
    (trained / "plan.json").unlink()

    def go(root):
        run(plan, SUITE, root, Options(), Lines(quiet))
        return ending(RunFolder(root), cell_id, "record.json")

    whole = copied(trained, tmp_path / "whole")
    with failing(Disk(whole)) as disk:
        expected = go(whole)
    writes, told = len(disk.done), 0
    assert 10 < writes <= MOST_WRITES, disk.done
    for n in range(1, writes + 1):
        root = copied(trained, tmp_path / "run")
        with failing(Disk(root, n, ERRORS[n % len(ERRORS)])) as disk:
            was_told = False
            try:
                run(plan, SUITE, root, Options(), Lines(quiet))
            except UserError:
                was_told = True
        assert was_told or is_harmless(disk.done[n - 1])
        told += was_told
        assert_nothing_torn(root)
        assert go(root) == expected, disk.done[n - 1]
    seconds = time.perf_counter() - start
    print(f"{writes} writes of a runner: {told} told, all resumed to the same record; {seconds:.0f} s")
