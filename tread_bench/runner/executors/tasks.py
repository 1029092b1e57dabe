"""What an executor runs and reports: all that a runner knows about where its processes are."""

from __future__ import annotations

import logging
import os
import platform
import traceback
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tread_bench.core.config.compute import Limits
from tread_bench.core.describe.plugins import named
from tread_bench.core.errors import LostError, UserError, failure_text, is_of_disk
from tread_bench.core.stored.files import open_plain
from tread_bench.runner.folder import RunFolder, check_there


@dataclass(frozen=True, slots=True)
class Task:
    """`function` ("module:name") is called with `arguments`, and with `tell` where it `reports`: a cell does, whose key
    is its id and whose first argument is the run folder.

    A task that is not done after `limit_s` seconds is ended and has failed. Its `processes`, of which it starts all but
    a single one itself, may use `cpus` threads and see `gpus` GPUs in all. Paths among the arguments are absolute: it
    may run on another machine that shares them.
    """

    key: str
    function: str
    arguments: tuple[Any, ...]
    log: Path
    reports: bool = False
    limit_s: float | None = None
    processes: int = 1
    cpus: int = 1
    gpus: int = 0


@dataclass(frozen=True, slots=True)
class TaskProgress:
    """What a running task reports: a phase, how far it is, the latest loss. `of` is 0 where it has just started."""

    key: str
    phase: str = ""
    done: int = 0
    of: int = 0
    loss: float | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """A task's end: its value, or why there is none.

    A `lost` one was ended from outside, by a signal or with its machine: a retry may well succeed. Every other
    failure is an outcome, but for an error of the `disk`, which ends the run.
    """

    key: str
    value: Any = None
    failure: str = ""
    lost: bool = False
    disk: OSError | None = None


Event = TaskProgress | Ended


class Executor(Protocol):
    """A place where tasks run, each in a process of its own."""

    @property
    def at_once(self) -> int | None:
        """The most tasks that run at a time; None: as many as a cluster has room for."""

    def may_have_gpus(self) -> bool:
        """Return whether a task that requests GPUs may get some, as far as is known here.

        Raises:
            UserError: there is no such cluster.
        """

    def __call__(self, tasks: Sequence[Task]) -> Generator[Event, None, None]:
        """Start tasks in their order as room becomes free, and yield what happens until all have ended.

        Leaving the iterator ends what is still running.
        """


def run_one(task: Task, executor: Executor, retries: int = 0) -> Ended:
    """Return the end of one task, which is started again if it was lost."""
    for _ in range(1 + retries):
        with closing(executor([task])) as events:
            ended = next(event for event in events if isinstance(event, Ended))
        if not ended.lost:
            break
    return ended


@dataclass(frozen=True, slots=True)
class Site:
    """An executor, and the threads and GPUs of one process; a process that is lost is started again."""

    executor: Executor
    limits: Limits
    cpus: int
    gpus: int

    def task_of_ranks(self, key: str, function: str, folder: RunFolder, cell_id: str, reports: bool) -> Task:
        """Return a task that calls the function with the run folder, a cell's id and the number of its processes."""
        ranks, minutes = self.limits.processes_per_cell, self.limits.cell_minutes
        limit_s = None if minutes is None else minutes * 60
        arguments, log = (folder.root, cell_id, ranks), folder.cell(cell_id) / "log"
        return Task(key, function, arguments, log, reports, limit_s, ranks, ranks * self.cpus, ranks * self.gpus)

    def end_of(self, task: Task) -> Ended:
        """Return the end of a task. Raises StoreError where its folder is gone, OSError where its disk cannot be
        used.
        """
        ended = run_one(task, self.executor, self.limits.retries)
        check_there(task.log.parent)
        if ended.disk:
            raise ended.disk
        return ended


def perform(task: Task, tell: Callable[[TaskProgress], None]) -> Ended:
    """Call the task's function in this process, with what it prints in the task's log; an exception is its failure."""
    try:
        if not task.log.parent.is_dir():
            where = f"{task.log.parent} is gone, or {platform.node()} does not see it"
            raise UserError(f"{where}: give an --out that every machine of the run sees")
        with open_plain(task.log, "ab", buffering=0) as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")
        logging.getLogger("tread_bench").setLevel(logging.INFO)
        extra = (lambda *news: tell(TaskProgress(task.key, *news)),) if task.reports else ()
        return Ended(task.key, named(task.function)(*task.arguments, *extra))
    except UserError as error:
        return Ended(task.key, failure=str(error))
    except LostError as error:
        return Ended(task.key, failure=str(error), lost=True)
    except Exception as error:
        if is_of_disk(error):
            return Ended(task.key, disk=error)
        traceback.print_exc()
        return Ended(task.key, failure=failure_text(error))
