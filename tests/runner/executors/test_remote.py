"""Following what a scheduler runs, with a scheduler of a few lines."""

from __future__ import annotations

import pytest

from tread_bench.runner.executors.remote import follow
from tread_bench.runner.executors.tasks import Ended, Task, TaskProgress
from tread_bench.runner.heartbeat import Heartbeat


class Scripted:
    """Each task notes something of itself when it is submitted, and ends when it was asked about often enough."""

    def __init__(self, looks: dict[str, int], refuses: str = "") -> None:
        self.looks, self.refuses = looks, refuses
        self.submitted, self.cancelled = dict[str, int](), list[str]()

    def submit(self, tasks):
        for task in tasks:
            if task.key == self.refuses:
                raise RuntimeError("no more jobs")
            self.submitted[task.key] = self.looks[task.key]
            if task.reports:
                Heartbeat(task.log.parent, lambda *news: None, task.key)("evaluating", 8, 10, None)
            yield task.key

    def ended(self, handle):
        self.submitted[handle] -= 1
        return Ended(handle, value=handle) if self.submitted[handle] < 0 else None

    def cancel(self, handles):
        self.cancelled += handles

    @property
    def outstanding(self) -> int:
        return sum(looks >= 0 for looks in self.submitted.values())


@pytest.fixture
def tasks(tmp_path):
    def make(*keys: str, reports: bool = False) -> list[Task]:
        return [Task(k, "m:f", (tmp_path, k), tmp_path / "cells" / k / "log", reports) for k in keys]

    return make


def test_every_task_ends_once_in_the_order_in_which_the_scheduler_is_done(tasks):
    ends = list(follow(tasks("a", "b", "c"), Scripted({"a": 3, "b": 1, "c": 2})))
    assert ends == [Ended(key, value=key) for key in "bca"]


def test_no_more_than_asked_for_are_submitted_before_one_has_ended(tasks):
    scheduler, most = Scripted(dict.fromkeys("abcde", 2)), 0
    for _ in follow(tasks(*"abcde"), scheduler, at_once=2):
        most = max(most, scheduler.outstanding)
    assert most <= 2 and len(scheduler.submitted) == 5


def test_what_has_not_ended_is_cancelled_when_nobody_follows_any_more_and_after_a_refusal(tasks):
    scheduler = Scripted({"a": 0, "b": 10_000})
    events = follow(tasks("a", "b"), scheduler)
    assert next(events).key == "a"
    events.close()
    assert scheduler.cancelled == ["b"]
    scheduler = Scripted(dict.fromkeys("abc", 10), refuses="c")
    with pytest.raises(RuntimeError):
        list(follow(tasks(*"abc"), scheduler))
    assert scheduler.cancelled == ["a", "b"]


def test_a_cell_s_news_come_from_its_folder_and_those_of_an_earlier_attempt_are_none(tasks):
    (task,) = tasks("a", reports=True)
    task.log.parent.mkdir(parents=True)
    Heartbeat(task.log.parent, lambda *news: None, task.key)("training", 7, 10, 0.5)  # which was lost
    events = follow([task], Scripted({"a": 10_000}))
    assert next(events) == TaskProgress("a", "evaluating", 8, 10, None)
    events.close()
