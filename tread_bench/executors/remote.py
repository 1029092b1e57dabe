"""Tasks that a cluster's scheduler runs somewhere: submitted here, followed in the run folder that all share."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Protocol

from tread_bench.executors.tasks import Ended, Event, Started, Task, Told
from tread_bench.heartbeat import Progress, read_progress
from tread_bench.store import RunFolder

FIRST_POLL_S, POLL_S = 0.01, 0.5  # between two looks at what runs: soon after something happened, and at most


class Handle(Protocol):
    """A submitted task."""

    def ended(self) -> Ended | None:
        """Its end, or None while it waits or runs."""
        ...

    def cancel(self) -> None: ...


class _Followed:
    """A submitted task, and the latest that was heard of it."""

    handle: Handle

    def __init__(self, task: Task) -> None:
        self.task, self.has_started = task, False
        self.heard = self._progress()  # of an earlier attempt, so before the task is submitted

    def _progress(self) -> Progress | None:
        return read_progress(RunFolder(self.task.arguments[0]), self.task.key) if self.task.reports else None

    def news(self) -> Iterator[Event]:
        """What its process has noted since the last look."""
        now = self._progress()
        if now is None or now == self.heard:
            return
        self.heard = now
        if not self.has_started:
            self.has_started = True
            yield Started(self.task.key)
        if now.of:
            yield Told(self.task.key, now.phase, now.done, now.of, now.loss)


Submit = Callable[[Sequence[Task]], Sequence[Handle]]


def follow(tasks: Sequence[Task], submit: Submit, at_once: int | None = None) -> Generator[Event, None, None]:
    """Submit tasks in order, at most `at_once` before one of them has ended, and yield what happens.

    Leaving the iterator cancels what has not ended.
    """
    waiting, submitted, patience = list(tasks), list[_Followed](), FIRST_POLL_S
    try:
        while waiting or submitted:
            room = len(waiting) if at_once is None else at_once - len(submitted)
            if now := waiting[:room]:
                del waiting[:room]
                submitted += _submitted(now, submit)
            happened = list(_look(submitted))
            yield from happened
            patience = FIRST_POLL_S if happened else min(2 * patience, POLL_S)
            if submitted:
                time.sleep(patience)
    finally:
        for followed in submitted:
            followed.handle.cancel()


def _submitted(tasks: Sequence[Task], submit: Submit) -> list[_Followed]:
    followed = [_Followed(task) for task in tasks]
    for one, handle in zip(followed, submit(tasks), strict=True):
        one.handle = handle
    return followed


def _look(submitted: list[_Followed]) -> Iterator[Event]:
    """Everything that has happened; tasks that have ended leave the list."""
    for followed in list(submitted):
        ended = followed.handle.ended()
        yield from followed.news()
        if ended is not None:
            submitted.remove(followed)
            yield ended
