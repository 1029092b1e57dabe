"""Where a run stands, told from its folder: one made by hand, a live one, a killed one, a finished one."""

from __future__ import annotations

import json
import os
import socket
import time

import pytest

from tests.command_line import tread_bench
from tests.run_folders import end, figures_of_speed, planned, ready
from tests.toy_suite import toy_suite
from tread_bench.cli.commands.status import LOST, headline, status_of
from tread_bench.core.stored.cache import cache_folder, is_locked, one_at_a_time
from tread_bench.runner.folder import RunFolder
from tread_bench.runner.heartbeat import Progress
from tread_bench.suite.plan import Plan


@pytest.fixture(scope="module")
def plan(tmp_path_factory) -> Plan:
    return planned(tmp_path_factory.mktemp("suite"), toy_suite(iterations=400, checkpoint_every=20, at="200, "))


@pytest.fixture
def folder(plan, tmp_path) -> RunFolder:
    """A planned run of which nothing has begun: rows dense and routed, two seeds each."""
    return ready(tmp_path / "run", plan)


def cells_of(folder: RunFolder) -> list[str]:
    return folder.existing_plan().cells


TIMED = {"timing": figures_of_speed()}


def tell(folder: RunFolder, cell: str, done: int, ago: float = 0.0, **changes: object) -> None:
    """As a cell that has trained to the `done`th iteration, `ago` seconds ago."""
    now = time.time() - ago
    news = {
        "cell": cell, "phase": "training", "done": done, "of": 400, "loss": 0.5, "rate": 2.0,
        "host": socket.gethostname(), "pid": 7, "device": "", "updated": now,
    }  # fmt: skip
    progress = Progress.model_validate({**news, **changes})
    (folder.cell(cell) / "progress.json").write_text(progress.model_dump_json())


def states(folder: RunFolder) -> list[str]:
    return [cell.state for cell in status_of(folder).cells]


def test_every_state_is_told_from_files_and_locks_alone(folder):
    assert states(folder) == ["waiting"] * 4
    dense, other, routed, last = cells_of(folder)
    end(folder, dense, **TIMED)
    end(folder, other)
    tell(folder, last, 3)
    with folder.cell_lock(routed):
        assert states(folder) == ["done", "trained", "running", "lost"]
    tell(folder, routed, 7)
    end(folder, last, status="failed", reason="out of memory: 9 GiB")
    status = status_of(folder)
    assert status.counts == {"lost": 1, "trained": 1, "done": 1, "failed": 1}
    assert [cell.reason for cell in status.cells] == ["", "", LOST, "out of memory: 9 GiB"]
    assert (status.cells[2].progress.done, status.is_complete) == (7, False)
    for cell in (other, routed):
        end(folder, cell, **TIMED)
    assert status_of(folder).is_complete
    assert headline(status_of(folder)) == "toy: finished (4 cells: 3 done, 1 failed)"
    folder.plan_path.write_text(folder.existing_plan().model_copy(update={"smoke": True}).model_dump_json())
    assert headline(status_of(folder)).startswith("toy (smoke run): ")


def test_looking_changes_nothing_and_leaves_the_locks(folder):
    before = {path: path.read_bytes() for path in folder.root.rglob("*") if path.is_file()}
    assert status_of(folder).is_held is False
    assert before == {path: path.read_bytes() for path in folder.root.rglob("*") if path.is_file()}
    with folder.lock():
        assert status_of(folder).is_held is True
    with folder.lock("1/2"), folder.lock("2/2"):
        assert status_of(folder).is_held is True
    with folder.lock():
        pass


def test_a_lock_is_seen_in_a_file_that_may_only_be_read(tmp_path, monkeypatch):
    path = tmp_path / ".lock"
    path.touch()
    monkeypatch.setattr(os, "access", lambda *about: False)
    assert is_locked(path) is False
    with RunFolder(tmp_path).lock():
        assert is_locked(path) is True
    assert is_locked(tmp_path / "none") is False


def test_the_lock_of_a_name_is_held_where_no_cache_was_before(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "new" / "cache"))
    with one_at_a_time("kernels"):
        assert is_locked(cache_folder("locks") / "kernels") is True
    assert is_locked(cache_folder("locks") / "kernels") is False


def test_a_folder_without_a_plan_is_no_run_or_one_that_has_just_begun_or_was_lost(tmp_path):
    folder = RunFolder(tmp_path / "run")
    with folder.lock():
        assert headline(status_of(folder)) == "a runner has just started"
        told = json.loads(tread_bench("status", folder.root, "--json").stdout)
        assert (told["suite"], told["device"], told["is_held"]) == (None, None, True)
    refused = tread_bench("status", folder.root)
    assert (refused.returncode, refused.stdout, "is not a run folder" in refused.stderr) == (2, "", True)


def test_a_run_is_broken_off_where_a_cell_was_lost_and_nowhere_else(folder):
    dense, other, routed, last = cells_of(folder)
    end(folder, dense)
    end(folder, routed)
    assert "no runner is active, 2 of 4 cells have not started;" in headline(status_of(folder))
    tell(folder, other, 3)
    assert "no runner is active, it was interrupted;" in headline(status_of(folder))
    end(folder, other)
    end(folder, last)
    assert "no runner is active, every cell is trained;" in headline(status_of(folder))
    (folder.cell(last) / "record.json").write_text("{")
    assert "1 of 4 cells cannot be read, for the reasons" in headline(status_of(folder))


def test_a_cell_of_another_machine_runs_while_it_is_heard_of(folder):
    for ago, state in ((30.0, "running"), (3000.0, "lost")):
        tell(folder, cells_of(folder)[0], 40, ago=ago, host="elsewhere")
        assert states(folder)[0] == state
    tell(folder, cells_of(folder)[0], 40)  # here, where its lock would be seen
    assert states(folder)[0] == "lost"


def test_a_cell_that_cannot_be_read_is_told_and_the_others_as_ever(folder):
    dense, other, routed, last = cells_of(folder)
    (folder.cell(dense) / "record.json").write_text('{"status": ')
    (folder.cell(other) / "record.json").write_text("[]")
    (folder.cell(last) / "cell.json").write_text("{}")
    end(folder, routed, **TIMED)
    told = status_of(folder).cells
    assert [cell.state for cell in told] == ["unreadable", "unreadable", "done", "unreadable"]
    assert all("move it away and run its suite again" in cell.reason for cell in told if cell.state == "unreadable")


def test_a_silent_cell_says_for_how_long_and_which_device_it_has(folder):
    plan = json.loads(folder.plan_path.read_text())
    folder.plan_path.write_text(json.dumps({**plan, "numerics": {**plan["numerics"], "device": "cuda"}}))
    cell = cells_of(folder)[0]
    with folder.cell_lock(cell):
        tell(folder, cell, 120, ago=200, device="3", host=socket.gethostname())
        told = tread_bench("status", folder.root)
    assert told.returncode == 0, told.stderr
    for text in ("dense seed 0", "silent for 3:2", "120/400", " 2 ", "pid 7, GPU 3", "3 waiting"):
        assert text in told.stdout
