"""Following what a scheduler runs, with a scheduler of a few lines."""

from __future__ import annotations

import pytest

from tread_bench.executors.remote import follow
from tread_bench.executors.tasks import Ended, Started, Task, Told
from tread_bench.heartbeat import Heartbeat


class Scripted:
    """A handle that ends when it was asked `looks` times."""

    def __init__(self, key: str, looks: int) -> None:
        self.key, self.looks, self.cancelled = key, looks, False

    def ended(self) -> Ended | None:
        self.looks -= 1
        return Ended(self.key, value=self.key) if self.looks < 0 else None

    def cancel(self) -> None:
        self.cancelled = True


class Scheduler:
    def __init__(self, looks: dict[str, int]) -> None:
        self.looks, self.handles = looks, dict[str, Scripted]()

    def __call__(self, tasks):
        self.handles |= {task.key: Scripted(task.key, self.looks[task.key]) for task in tasks}
        return [self.handles[task.key] for task in tasks]

    @property
    def outstanding(self) -> int:
        return sum(handle.looks >= 0 for handle in self.handles.values())


@pytest.fixture
def tasks(tmp_path):
    def make(*keys: str, reports: bool = False) -> list[Task]:
        return [Task(k, "m:f", (tmp_path, k), tmp_path / "cells" / k / "log", reports) for k in keys]

    return make


def test_every_task_ends_once_in_the_order_in_which_the_scheduler_is_done(tasks):
    ends = list(follow(tasks("a", "b", "c"), Scheduler({"a": 3, "b": 1, "c": 2})))
    assert [end.key for end in ends] == ["b", "c", "a"]


def test_no_more_than_asked_for_are_submitted_before_one_has_ended(tasks):
    scheduler = Scheduler(dict.fromkeys("abcde", 2))
    most = 0
    for _ in follow(tasks(*"abcde"), scheduler, at_once=2):
        most = max(most, scheduler.outstanding)
    assert most <= 2 and len(scheduler.handles) == 5


def test_what_has_not_ended_is_cancelled_when_nobody_follows_any_more(tasks):
    scheduler = Scheduler({"a": 0, "b": 10_000})
    events = follow(tasks("a", "b"), scheduler)
    assert next(events).key == "a"
    events.close()
    assert [handle.cancelled for handle in scheduler.handles.values()] == [False, True]


def test_a_cell_s_news_come_from_its_folder_and_those_of_an_earlier_attempt_are_none(tasks, tmp_path):
    (task,) = tasks("a", reports=True)
    task.log.parent.mkdir(parents=True)
    Heartbeat(task.log.parent, lambda *news: None)("training", 7, 10, 0.5)  # which was lost
    scheduler = Scheduler({"a": 10_000})

    def submit(some):
        handles = scheduler(some)
        now = [Heartbeat(t.log.parent, lambda *news: None) for t in some]
        now[0]("evaluating", 8, 10, None)
        return handles

    events = follow([task], submit)
    assert [next(events), next(events)] == [Started("a"), Told("a", "evaluating", 8, 10, None)]
    events.close()


def test_a_task_that_reports_nothing_just_ends(tasks):
    assert [type(event) for event in follow(tasks("a"), Scheduler({"a": 1}))] == [Ended]
