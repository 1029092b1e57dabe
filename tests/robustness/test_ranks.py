"""A cell of several processes whose ranks, launcher or runner are killed or stopped: nothing is lost or left over."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from pathlib import Path

import psutil
import pytest
from life import Life

from tests.command_line import figures, tread_bench, wait_for
from tests.toy_suite import FEW_SAMPLES, toy_suite, write_suite
from tread_bench.cell.launch import SILENCE_S

ITERATIONS = 120
SUITE = toy_suite(ITERATIONS, 10, seeds=1, hidden=32, batch=7, metrics=FEW_SAMPLES, pairs=0, at="60, ")


class Ranks(Life):
    """One start of the runner, whose cell has two processes."""

    def __init__(self, suite: Path, out: Path, **limits: int) -> None:
        chosen = [f"--set=limits.{name}={value}" for name, value in {"processes_per_cell": 2, **limits}.items()]
        super().__init__("run", suite, "--rows", "routed", "--out", out, *chosen)
        self.out = out

    def progress(self) -> dict[str, object]:
        (path,) = self.out.glob("cells/*/progress.json")
        return json.loads(path.read_text())

    def after(self, steps: int) -> list[psutil.Process]:
        """The ranks, once so many steps are done."""

        def ranks():
            try:
                progress = self.progress()
                launcher = psutil.Process(progress["pid"])
                found = [one for one in launcher.children() if "spawn_main" in " ".join(one.cmdline())]
            except (ValueError, OSError, psutil.Error):
                return []
            return found if progress["done"] >= steps else []

        return wait_for(ranks)


def record_of(out: Path) -> dict[str, object]:
    (path,) = out.glob("cells/*/record.json")
    return json.loads(path.read_text())


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    return write_suite(tmp_path_factory.mktemp("suite"), SUITE)


@pytest.fixture(scope="module")
def undisturbed(suite, tmp_path_factory):
    """The record of two processes that nothing happens to."""
    out = tmp_path_factory.mktemp("undisturbed") / "run"
    done = tread_bench("run", suite, "--rows", "routed", "--out", out, "--set", "limits.processes_per_cell=2")
    assert done.returncode == 0, done.stderr
    return record_of(out)


@pytest.mark.full
def test_two_processes_resume_bit_for_bit_after_a_kill_and_end_where_one_does(suite, undisturbed, tmp_path):
    # A rank is killed: the run says so, goes on from the checkpoint, and ends as if nothing had happened.
    with Ranks(suite, tmp_path / "killed") as life:
        life.after(steps=40)[1].kill()
        assert life.process.wait(200) == 0
        wait_for(lambda: not life.everybody(), 10)
    record = record_of(tmp_path / "killed")
    assert figures(record) == figures(undisturbed)
    assert [attempt.partition(":")[0] for attempt in record["attempts"]] == ["rank 1 was killed by SIGKILL", "done"]

    # One process has the same draws, and differs in the last digits of sums.
    done = tread_bench("run", suite, "--rows", "routed", "--out", tmp_path / "one")
    assert done.returncode == 0, done.stderr
    one = record_of(tmp_path / "one")
    assert "processes" not in one["conditions"] and record["conditions"]["processes"] == 2
    for alone, together in zip(one["evaluations"], record["evaluations"], strict=True):
        for name in ("validation_loss", "fid"):
            assert together[name] == pytest.approx(alone[name], rel=1e-3)


@pytest.mark.endurance
@pytest.mark.parametrize("number", range(50))
def test_a_signal_at_any_instant_loses_no_cell_and_leaves_nobody(suite, undisturbed, tmp_path, number):
    rng = random.Random(number)
    kind = [signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP][number % 3]
    with Ranks(suite, tmp_path / "run", retries=10) as life:
        rng.choice(life.after(steps=rng.randrange(ITERATIONS - 50))).send_signal(kind)
        began = time.monotonic()
        assert life.process.wait(3 * SILENCE_S + 100) == 0
        if kind is signal.SIGSTOP:
            assert time.monotonic() - began < 2 * SILENCE_S + 30
        wait_for(lambda: not life.everybody(), 10)
    assert figures(record_of(tmp_path / "run")) == figures(undisturbed)


@pytest.mark.endurance
@pytest.mark.parametrize("who", ["launcher", "runner"])
def test_no_rank_outlives_its_launcher_or_runner(suite, tmp_path, who):
    with Ranks(suite, tmp_path / "run", retries=0) as life:
        ranks = life.after(steps=50)
        os.kill(life.progress()["pid"] if who == "launcher" else life.process.pid, signal.SIGKILL)
        wait_for(lambda: not any(rank.is_running() and rank.status() != "zombie" for rank in ranks), 10)
