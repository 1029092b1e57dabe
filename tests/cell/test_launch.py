"""When ranks count as hung, by a clock of the test's own."""

from __future__ import annotations

import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest

from tread_bench.cell.launch import SILENCE_S, _Beat, _Failure, _Watch


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


class Watched:
    """Two ranks that give signs of life each second, and report what `at` says."""

    def __init__(self):
        self.clock, self.told = Clock(), []
        self.watch = _Watch([], lambda *news: self.told.append(news), self.clock)

    def live(self, seconds, phase, steps_per_s=0.0, done=0, ranks=(0, 1)):
        for second in range(seconds):
            self.clock.now += 1
            for rank in ranks:
                self.watch.note(_Beat(rank, 100 + rank, (phase, done + int(second * steps_per_s), 1000, None)))
        return self.watch.hung()


def test_ranks_that_go_on_are_not_hung_whatever_takes_long():
    watched = Watched()
    assert watched.live(3000, "training") == ""  # the first step compiles
    assert watched.live(100, "training", 2.0, done=1) == ""
    assert watched.live(3600, "evaluating") == "" and watched.live(3600, "saving") == ""
    assert watched.live(1, "training", done=300) == ""


def test_without_a_step_for_a_minute_a_rank_hangs():
    watched = Watched()
    watched.live(100, "training", 1.0)
    assert watched.live(int(SILENCE_S) - 1, "training", done=99) == ""
    assert watched.live(2, "training", done=99) == "no step was done for 60 s: a rank hangs"


def test_steps_that_take_long_may_take_longer():
    watched = Watched()
    watched.live(100, "training", 1 / 20)  # 20 s each
    assert watched.live(175, "training", done=4) == ""
    assert watched.live(30, "training", done=4) == "no step was done for 200 s: a rank hangs"


@pytest.mark.parametrize("phase", ["training", "evaluating"])
def test_a_rank_without_a_sign_of_life_is_hung_in_any_phase(phase):
    watched = Watched()
    watched.live(10, phase, 1.0)
    assert watched.live(int(SILENCE_S), phase, 1.0, done=20, ranks=[0]) == ""
    assert watched.live(2, phase, 1.0, done=200, ranks=[0]) == "rank 1 gave no sign of life for 60 s"


def test_what_the_first_rank_reports_is_told_once():
    watched = Watched()
    watched.live(3, "training", 1.0)
    watched.live(2, "evaluating", done=2)
    assert watched.told == [("training", k, 1000, None) for k in range(3)] + [("evaluating", 2, 1000, None)]


def test_a_rank_s_own_error_is_why_the_ranks_ended():
    watched, failure = Watched(), _Failure(1, RuntimeError("it"))
    watched.watch.note(failure)
    ended = SimpleNamespace(get_first_failure=lambda: (0, SimpleNamespace(exitcode=1)))
    assert watched.watch.cause(ended) is failure.error


STOPPING = """
import os, signal, time
from tread_bench.cell.launch import launch

def stop(report):
    if os.environ["RANK"] == "0":
        os.kill(os.getppid(), signal.SIGTERM)
    time.sleep(60)

if __name__ == "__main__":
    launch("stopping:stop", (), 2, print)
"""


@pytest.mark.full
def test_a_launcher_that_is_told_to_end_leaves_no_semaphores(tmp_path):
    (tmp_path / "stopping.py").write_text(STOPPING)
    done = subprocess.run([sys.executable, tmp_path / "stopping.py"], capture_output=True, text=True, timeout=100)
    assert (done.returncode, "leaked" in done.stderr) == (-signal.SIGTERM, False), done.stderr
