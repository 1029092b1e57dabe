"""Tests end what they start, also where a time limit cuts them off."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import psutil
import pytest

from tests.command_line import wait_for
from tests.robustness.warm import Warm

TESTS = """
import os, subprocess, time
from tests.robustness.warm import Warm
from tests.test_leftovers import start_command_that_hangs, with_variable

def test_with_a_process_in_its_own_session():
    subprocess.Popen(["sleep", "600"], start_new_session=True)
    time.sleep(600)

def test_with_a_command(tmp_path):
    start_command_that_hangs(Warm(with_torch=False), tmp_path)

def test_after_them():
    assert [one.name() for one in with_variable(os.environ["SOUGHT"]) if one.name() == "sleep"] == []
"""


def start_command_that_hangs(warm: Warm, folder: Path) -> None:
    """It waits for a reader of its standard output."""
    os.mkfifo(folder / "told.stdout")
    warm("status", folder, cwd=folder, limit_s=600, streams=folder / "told")


def with_variable(value: str) -> list[psutil.Process]:
    """All processes that were started with this value of SOUGHT."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get("SOUGHT") == value:
                found.append(process)
    return found


@pytest.mark.full
@pytest.mark.parametrize(("method", "least"), [("signal", 2), ("thread", 1)])
def test_a_test_that_is_cut_off_leaves_no_process(
    method: str, least: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    value = uuid4().hex
    monkeypatch.setenv("SOUGHT", value)
    (tmp_path / "test_hanging.py").write_text(TESTS)
    asked = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider", "--timeout", "3"]
    asked += ["--timeout-method", method, tmp_path, "--rootdir", tmp_path, "-c", "/dev/null"]
    ended = subprocess.run(asked, capture_output=True, text=True)
    assert ended.stdout.count("Timeout") >= least, ended.stdout + ended.stderr
    assert method == "thread" or "2 failed, 1 passed" in ended.stdout, ended.stdout
    wait_for(lambda: not with_variable(value), seconds=10)
