"""What plan.json says of time: when the run was first started, and when its program was committed."""

from __future__ import annotations

import os
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tread_bench.preparation import git_state, write_plan
from tread_bench.store import RunFolder, StoreError, read_json, write_json
from tread_bench.suite_file import find_suite, load_plan

LONG_AGO = datetime(2025, 1, 2, 3, 4, 5, tzinfo=UTC)
ABOUT = {"numerics": {"device": "cpu"}, "versions": {}}


def write(root, fresh=False):
    write_plan(load_plan(find_suite("smoke")), (), "", RunFolder(root), ABOUT, fresh)
    return datetime.fromisoformat(read_json(root / "plan.json")["started"])


def test_a_run_says_when_it_was_started(tmp_path):
    assert abs(datetime.now(UTC) - write(tmp_path)) < timedelta(minutes=1)


@pytest.mark.parametrize("fresh", [False, True])
def test_a_run_that_goes_on_keeps_its_first_start_and_one_begun_afresh_does_not(tmp_path, fresh):
    write(tmp_path)
    write_json(tmp_path / "plan.json", read_json(tmp_path / "plan.json") | {"started": LONG_AGO.isoformat()})
    assert (write(tmp_path, fresh) == LONG_AGO) is not fresh


def test_a_run_of_an_older_version_began_when_its_plan_was_last_written(tmp_path):
    write(tmp_path)
    path = tmp_path / "plan.json"
    write_json(path, {key: value for key, value in read_json(path).items() if key != "started"})
    os.utime(path, (LONG_AGO.timestamp(),) * 2)
    assert write(tmp_path) == LONG_AGO


@pytest.mark.parametrize("started", ["yesterday", 5, None, "2025-13-01"])
def test_a_start_that_is_no_time_is_told(tmp_path, started):
    with pytest.raises(StoreError, match="ISO 8601"):
        RunFolder(tmp_path).started({"started": started})


def test_the_commits_date_is_gits():
    if (state := git_state()) is None:
        pytest.skip("the tests run outside a checkout")
    told = subprocess.run(
        ["git", "log", "-1", "--format=%ct"], cwd=Path(__file__).parent, capture_output=True, text=True, check=True
    )
    assert datetime.fromisoformat(state["committed"]).timestamp() == int(told.stdout)
