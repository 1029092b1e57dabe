"""A run folder that is renamed or removed while its run is under way: told once, and nothing comes back of it."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

import pytest
import torch

from tests.fake_executor import Executor
from tests.run_folders import new_folder
from tests.toy_suite import OWNER, toy_suite, write_suite
from tread_bench.cell.checkpoint import Checkpoint, save_checkpoint
from tread_bench.core.stored.files import StoreError, write_atomically
from tread_bench.core.stored.records import Record
from tread_bench.runner import prepare as preparation
from tread_bench.runner import runner
from tread_bench.runner.executors.tasks import Ended, Task, perform
from tread_bench.runner.folder import RunFolder
from tread_bench.runner.heartbeat import Heartbeat
from tread_bench.runner.options import Call, Options
from tread_bench.services.display import Lines
from tread_bench.suite.load import load_plan

CELL = "dense-s0-0123456789"
STORED = Path(__file__).parent / "stored" / "record.json"
RECORD = Record.model_validate_json(STORED.read_text()).model_copy(update={"cell": CELL})


def tell(*news: object, **style: object) -> None:
    """Nobody listens."""


def beat(folder):
    Heartbeat(folder.cell(CELL), tell, OWNER)("training", 1, 2, None)


def perform_a_task(folder):
    ended = perform(Task("t", "os:getpid", (), folder.cell(CELL) / "log"), tell)
    assert " is gone, or " in ended.failure


def lock_the_cell(folder):
    with folder.cell_lock(CELL):
        pass


WRITERS = {
    "record": lambda folder: folder.write_record(RECORD),
    "cell": lambda folder: write_atomically(folder.made(CELL) / "cell.json", "{}"),
    "plan": lambda folder: write_atomically(folder.plan_path, "{}"),
    "page": lambda folder: write_atomically(folder.root / "index.html", "page"),
    "checkpoint": lambda folder: save_checkpoint(
        folder.cell(CELL) / "checkpoints", 1, Checkpoint({"a": torch.zeros(1)}, {}), OWNER
    ),
    "lock": lock_the_cell,
    "log": perform_a_task,
    "heartbeat": beat,
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS.keys())
def test_nothing_that_a_run_writes_brings_its_folder_back(write, tmp_path):
    folder = new_folder(tmp_path / "run")
    folder.made(CELL)
    folder.root.rename(tmp_path / "moved")
    with suppress(FileNotFoundError):
        write(folder)
    assert not folder.root.exists() and not list((tmp_path / "moved").glob("cells/*/*"))


@pytest.mark.parametrize("is_moved", [True, False])
def test_a_runner_whose_folder_has_gone_says_so_once_and_stops(is_moved, tmp_path, monkeypatch):
    suite = write_suite(tmp_path, toy_suite(2, 1, seeds=1, pairs=0))
    out, to = tmp_path / "run", tmp_path / "moved"
    ends = []

    def end(task):
        ends.append(task.key)
        out.rename(to) if is_moved else shutil.rmtree(out)
        return Ended(task.key, failure="FileNotFoundError")

    monkeypatch.setattr(preparation, "executor_named", lambda *_: Executor(end))
    with pytest.raises(StoreError, match=r"run is gone: it was moved or removed during its run"):
        runner.run(load_plan(suite), Call(suite.read_text(), RunFolder(out), Options(), Lines(tell)))
    assert len(ends) == 1 and not out.exists()
    if is_moved:
        assert len(list(to.glob("cells/*/cell.json"))) == 2 and (to / "plan.json").exists()
