"""What a cell tells of itself while it runs."""

from __future__ import annotations

import os
import socket
from itertools import pairwise

import pytest

from tread_bench.core.stored.files import temporaries
from tread_bench.runner import heartbeat
from tread_bench.runner.folder import RunFolder
from tread_bench.runner.heartbeat import Heartbeat, read_progress


@pytest.fixture
def folder(tmp_path) -> RunFolder:
    (tmp_path / "cells" / "a").mkdir(parents=True)
    return RunFolder(tmp_path)


@pytest.fixture
def now(monkeypatch) -> list[float]:
    """The hands of the module's clock."""
    hands = [100.0]
    monkeypatch.setattr(heartbeat.time, "monotonic", lambda: hands[0])
    return hands


def heart(folder, tell=lambda *news: None) -> Heartbeat:
    return Heartbeat(folder.cell("a"), tell, "a")


def test_news_goes_on_as_it_came_and_is_noted_at_a_new_phase_or_once_a_second(folder, now):
    told = []
    beat = heart(folder, lambda *news: told.append(news))
    first = read_progress(folder, "a")
    assert (first.phase, first.done, first.of) == ("starting", 0, 0)
    assert (first.host, first.pid) == (socket.gethostname(), os.getpid())
    news = [("training", 1, 9, 0.5), ("training", 2, 9, 0.4), ("training", 3, 9, 0.3), ("evaluating", 3, 9, None)]
    noted = []
    for one, later in zip(news, (0.1, 0.5, 1.0, 0.1), strict=True):
        now[0] += later
        beat(*one)
        noted.append(read_progress(folder, "a").done)
    assert told == news
    assert noted == [1, 1, 3, 3]
    assert read_progress(folder, "a").phase == "evaluating"


def test_the_rate_is_that_of_training_evaluations_and_the_start_aside(folder, now):
    beat = heart(folder)
    now[0] += 50
    for done in range(30, 40):  # resuming from a checkpoint
        now[0] += 0.25
        beat("training", done, 60, None)
    for _ in range(3):
        now[0] += 1000
        beat("evaluating", 39, 60, None)
    for done in range(40, 51):
        now[0] += 0.25
        beat("training", done, 60, None)
    beat("evaluating", 50, 60, None)
    progress = read_progress(folder, "a")
    assert (progress.rate, progress.done) == (4.0, 50)


def test_a_slow_disk_is_written_to_less_often(folder, now, monkeypatch):
    notes = []

    def slow(path, content):
        now[0] += 0.02
        notes.append(now[0])

    monkeypatch.setattr(heartbeat, "write_atomically", slow)
    beat = heart(folder)
    for done in range(100):
        now[0] += 1.1
        beat("training", done, 100, None)
    waits = [later - earlier for earlier, later in pairwise(notes[1:])]
    assert len(waits) > 10 and min(waits) >= 0.02 / heartbeat.SHARE


def test_what_is_damaged_or_another_s_is_nothing(folder):
    heart(folder)
    path = folder.cell("a") / "progress.json"
    whole = path.read_bytes()
    for content in (whole[:-1], b"", b"\xff" + whole, whole.replace(b'"a"', b'"b"')):
        path.write_bytes(content)
        assert read_progress(folder, "a") is None
    path.unlink()
    assert read_progress(folder, "a") is None


def test_a_disk_that_fails_is_no_end_and_leaves_nothing(folder):
    beat = heart(folder)
    path = folder.cell("a") / "progress.json"
    path.unlink()
    path.mkdir()  # what is written cannot be renamed there
    beat("training", 1, 9, None)
    assert not temporaries(folder.root)
    path.rmdir()
    beat("evaluating", 2, 9, None)
    assert read_progress(folder, "a").done == 2
