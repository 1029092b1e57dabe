"""Tasks that a cluster's scheduler runs somewhere: submitted here, followed in the shared run folder."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from typing import Any, Protocol

from tread_bench.runner.executors.local import Local
from tread_bench.runner.executors.tasks import Ended, Event, Task, TaskProgress, run_one
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

    def ended(self, handle: Any) -> Ended | None:
        """Return its end, or None while it waits or runs."""

    def cancel(self, handles: Sequence[Any]) -> None: ...


def follow(tasks: Sequence[Task], scheduler: Scheduler, at_once: int | None = None) -> Generator[Event, None, None]:
    """Submit tasks in order, at most `at_once` before one of them has ended, and yield what happens.

    Leaving the iterator cancels what has not ended.
    """
    waiting, submitted, patience = [*tasks], list[tuple[Task, Any]](), FIRST_POLL_S
    heard = {task.key: _progress(task) for task in tasks}  # of an earlier attempt, so before the task is submitted
    try:
        while waiting or submitted:
            room = len(waiting) if at_once is None else at_once - len(submitted)
            for handle in scheduler.submit(waiting[:room]):
                submitted.append((waiting.pop(0), handle))
            patience = min(2 * patience, POLL_S)

            # What their processes have reported since the last look, and which have ended.
            for task, handle in [*submitted]:
                ended, news = scheduler.ended(handle), _progress(task)
                if news is not None and news != heard[task.key]:
                    heard[task.key], patience = news, FIRST_POLL_S
                    yield TaskProgress(task.key, news.phase, news.done, news.of, news.loss)
                if ended is not None:
                    submitted.remove((task, handle))
                    patience = FIRST_POLL_S
                    yield ended
            if submitted:
                time.sleep(patience)
    finally:
        scheduler.cancel([handle for _, handle in submitted])


def _progress(task: Task) -> Progress | None:
    return read_progress(RunFolder(task.arguments[0]), task.key) if task.reports else None
