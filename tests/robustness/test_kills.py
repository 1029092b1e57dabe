"""Processes that are killed or stopped at random instants: a runner, its server, its cells and their ranks.

Nothing is lost, nothing is changed, and nobody stays.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.command_line import command, figures, tread_bench, wait_for
from tests.toy_suite import FEW_SAMPLES, results, toy_suite, write_suite
from tread_bench.cell.launch import SILENCE_S
from tread_bench.core.stored.files import temporaries
from tread_bench.runner.folder import RunFolder

KILLS = 200
SMALL = {"batch": 7, "metrics": FEW_SAMPLES}
SUITE = toy_suite(80, 1, at="40, ", seeds=3, hidden=64, **SMALL, more="limits: {retries: 1000}\n")
STEPS = 120
OF_RANKS = toy_suite(STEPS, 10, at="60, ", seeds=1, hidden=32, **SMALL, pairs=0)
TWO_PROCESSES = ("--rows", "routed", "--set=limits.processes_per_cell=2")


class Life:
    """One start of a run, in a session of its own as a shell starts it; leaving it ends what is left of it."""

    def __init__(self, suite: Path, out: Path, *options: object) -> None:
        asked = command("run", suite, "--out", out, *options)
        self.process = subprocess.Popen(asked, start_new_session=True, stdout=subprocess.DEVNULL)
        self.out = out

    def __enter__(self):
        return self

    def __exit__(self, *error: object) -> None:
        for process in self.everybody():
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self.process.wait()

    def everybody(self) -> list[psutil.Process]:
        """All processes that are left of it."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.NoSuchProcess, ProcessLookupError):
                if os.getsid(process.pid) == self.process.pid and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def progress(self) -> dict[str, object]:
        (path,) = self.out.glob("cells/*/progress.json")
        return json.loads(path.read_text())

    def ranks_after(self, steps: int) -> list[psutil.Process]:
        """The ranks of its only cell, once so many steps are done."""

        def ranks():
            with suppress(ValueError, OSError, psutil.Error):
                progress = self.progress()
                if progress["done"] >= steps:
                    children = psutil.Process(progress["pid"]).children()
                    return [one for one in children if "spawn_main" in " ".join(one.cmdline())]
            return []

        return wait_for(ranks)


def kill_somebody(life: Life, chance: random.Random) -> bool:
    """After a while, half of the time as a file is begun; False once the run has ended."""
    with suppress(subprocess.TimeoutExpired):
        life.process.wait(chance.uniform(0, 4))
        return False
    before = set(temporaries(life.out))
    is_over = time.monotonic() + chance.choice([0, 2])
    while time.monotonic() < is_over and not set(temporaries(life.out)) - before:
        time.sleep(0.001)
    with suppress(psutil.NoSuchProcess):
        runner = psutil.Process(life.process.pid)
        servers = [child for child in runner.children() if child.children()]
        cells = [cell for server in servers for cell in server.children()]
        chance.choice([runner, *servers, *cells, *cells]).kill()
    return True


def finished(out: Path) -> dict[Path, dict[str, object]]:
    """Records that are there, without speed, which comes last."""
    return {path: {**json.loads(path.read_text()), "timing": None} for path in out.glob("cells/*/record.json")}


@pytest.mark.endurance
@pytest.mark.timeout(1800)
@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_200_kills_lose_nothing_change_nothing_and_leave_nobody(tmp_path):
    suite = write_suite(tmp_path, SUITE)
    with Life(suite, tmp_path / "undisturbed", "--workers", 2) as life:
        assert life.process.wait() == 0
    expected = results(tmp_path / "undisturbed")
    assert len(expected) == 6

    chance, kills = random.Random(0), 0
    while kills < KILLS:
        out, status = tmp_path / f"disturbed-{kills}", None
        while status != 0:
            before = finished(out)
            with Life(suite, out, "--workers", 2) as life:
                while kills < KILLS and kill_somebody(life, chance):
                    kills += 1
                status = life.process.wait()
                wait_for(lambda life=life: not life.everybody(), 10)
            assert status in (0, -9)
            assert before.items() <= finished(out).items()
        assert results(out) == expected
        for path in RunFolder(out).removable():
            path.unlink()
        assert not list(temporaries(out))


# A cell of several processes


def record_of(out: Path) -> dict[str, object]:
    (path,) = out.glob("cells/*/record.json")
    return json.loads(path.read_text())


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    return write_suite(tmp_path_factory.mktemp("suite"), OF_RANKS)


@pytest.fixture(scope="module")
def undisturbed(suite, tmp_path_factory):
    """The record of two processes that nothing happens to."""
    out = tmp_path_factory.mktemp("undisturbed") / "run"
    done = tread_bench("run", suite, "--out", out, *TWO_PROCESSES)
    assert done.returncode == 0, done.stderr
    return record_of(out)


@pytest.mark.full
def test_two_processes_resume_bit_for_bit_after_a_kill_and_end_where_one_does(suite, undisturbed, tmp_path):
    # A rank is killed: the run says so, goes on from the checkpoint, and ends as if nothing had happened.
    with Life(suite, tmp_path / "killed", *TWO_PROCESSES) as life:
        life.ranks_after(steps=40)[1].kill()
        assert life.process.wait(200) == 0
        wait_for(lambda: not life.everybody(), 10)
    record = record_of(tmp_path / "killed")
    assert figures(record) == figures(undisturbed)
    (log,) = tmp_path.glob("killed/cells/*/log")
    assert "runner: rank 1 was killed by SIGKILL" in log.read_text()

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
    with Life(suite, tmp_path / "run", *TWO_PROCESSES, "--set=limits.retries=10") as life:
        rng.choice(life.ranks_after(steps=rng.randrange(STEPS - 50))).send_signal(kind)
        began = time.monotonic()
        assert life.process.wait(3 * SILENCE_S + 100) == 0
        if kind is signal.SIGSTOP:
            assert time.monotonic() - began < 2 * SILENCE_S + 30
        wait_for(lambda: not life.everybody(), 10)
    assert figures(record_of(tmp_path / "run")) == figures(undisturbed)


@pytest.mark.endurance
@pytest.mark.parametrize("who", ["launcher", "runner"])
def test_no_rank_outlives_its_launcher_or_runner(suite, tmp_path, who):
    with Life(suite, tmp_path / "run", *TWO_PROCESSES, "--set=limits.retries=0") as life:
        ranks = life.ranks_after(steps=50)
        os.kill(life.progress()["pid"] if who == "launcher" else life.process.pid, signal.SIGKILL)
        wait_for(lambda: not any(rank.is_running() and rank.status() != "zombie" for rank in ranks), 10)
