"""Tasks that a cluster's scheduler runs somewhere: submitted here, followed in the shared run folder."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from typing import Any, Protocol

from tread_bench.runner.executors.local import Local
from tread_bench.runner.executors.tasks import Ended, Event, Started, Task, TaskProgress, run_one
from tread_bench.runner.folder import RunFolder
from tread_bench.runner.heartbeat import Progress, read_progress

FIRST_POLL_S, POLL_S = 0.01, 0.5  # between two looks at what runs: soon after something happened, and at most


def end_here(task: Task) -> Ended:
    """Run a task on the machine that the scheduler has chosen, in a process of its own, and return its end.

    It sees the GPUs that the scheduler gave to this process.
    """
    return run_one(task, Local(workers=1, gpus=task.gpus))


class Scheduler(Protocol):
    """What runs tasks elsewhere; a submitted task is identified by its handle, whatever that is."""

    def submit(self, tasks: Sequence[Task]) -> Iterator[Any]:
        """Their handles in order, each as soon as the task is submitted."""
        ...

    def ended(self, handle: Any) -> Ended | None:
        """Return its end, or None while it waits or runs."""
        ...

    def cancel(self, handles: Sequence[Any]) -> None: ...


class _Followed:
    """A task, and its latest news."""

    handle: Any = None

    def __init__(self, task: Task) -> None:
        self.task, self.has_started = task, False
        self.heard = self._progress()  # of an earlier attempt, so before the task is submitted

    def _progress(self) -> Progress | None:
        return read_progress(RunFolder(self.task.arguments[0]), self.task.key) if self.task.reports else None

    def news(self) -> Iterator[Event]:
        """What its process has reported since the last look."""
        now = self._progress()
        if now is None or now == self.heard:
            return
        self.heard = now
        if not self.has_started:
            self.has_started = True
            yield Started(self.task.key)
        if now.of:
            yield TaskProgress(self.task.key, now.phase, now.done, now.of, now.loss)


def follow(tasks: Sequence[Task], scheduler: Scheduler, at_once: int | None = None) -> Generator[Event, None, None]:
    """Submit tasks in order, at most `at_once` before one of them has ended, and yield what happens.

    Leaving the iterator cancels what has not ended.
    """
    waiting, submitted, patience = [_Followed(task) for task in tasks], list[_Followed](), FIRST_POLL_S
    try:
        while waiting or submitted:
            room = len(waiting) if at_once is None else at_once - len(submitted)
            handles = scheduler.submit([followed.task for followed in waiting[:room]])
            for handle in handles:
                waiting[0].handle = handle
                submitted.append(waiting.pop(0))
            happened = list(_look(submitted, scheduler))
            yield from happened
            patience = FIRST_POLL_S if happened else min(2 * patience, POLL_S)
            if submitted:
                time.sleep(patience)
    finally:
        scheduler.cancel([followed.handle for followed in submitted])


def _look(submitted: list[_Followed], scheduler: Scheduler) -> Iterator[Event]:
    """Everything that has happened; tasks that have ended leave the list."""
    for followed in list(submitted):
        ended = scheduler.ended(followed.handle)
        yield from followed.news()
        if ended is not None:
            submitted.remove(followed)
            yield ended
