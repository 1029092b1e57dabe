"""Tasks in processes of their own on this machine, a few at a time.

Children are forked from a server that has imported torch once, so that a cell starts at once and still shares nothing
with its neighbours. A child ends with its server, and the server with the runner, however the runner dies.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
import sys
import time
from collections import Counter, deque
from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing import connection, forkserver, resource_tracker
from types import ModuleType
from typing import Any

from tread_bench.core.errors import OUT_OF_MEMORY, UserError
from tread_bench.core.processes import RUNNER, end_with_parent, variables
from tread_bench.core.stored.conditions import RunNumerics
from tread_bench.runner.executors.tasks import Ended, Event, Task, TaskProgress, perform

_context = multiprocessing.get_context("forkserver")
_PRELOADED = ["tread_bench.runner.executors.server", __name__]  # in this order
PATIENCE_S = 25.0  # between asking a child to end, before which a training saves, and ending it
STARTS = 3  # of one process: a killed server is only seen to be dead a moment later
_SERVER_GONE = 255  # exit code that multiprocessing gives a child whose server died before it
_CRASHES = {signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSYS, signal.SIGTRAP}


@dataclass
class _Running:
    task: Task
    process: Any
    inbox: connection.Connection
    gpus: tuple[str, ...]
    deadline: float  # on the monotonic clock; infinite for a task that has reported its end
    outcome: Ended | None = None


@dataclass(frozen=True, slots=True)
class Local:
    """On this machine, at most `workers` tasks at a time (None: one, until `sized` finds how many fit).

    `gpus` is how many it has; a task sees those of them that the fewest others use, and shares one with others where
    there are more workers than GPUs. Before it is known how many there are, a task sees all.
    """

    workers: int | None = None
    gpus: int | None = None

    @property
    def at_once(self) -> int:
        return self.workers or 1

    def may_have_gpus(self) -> bool:
        return True  # a task that looks sees all there are

    def sized(self, numerics: RunNumerics, processes: int) -> Local:
        """Return the same for cells of so many processes; `numerics` have the threads of each, and the GPUs here."""
        if numerics.device == "cuda":
            slices = [name for name in _named_gpus() if name.startswith("MIG-")]  # CUDA counts the first alone
            gpus = len(slices) or numerics.device_count
            return Local(self.workers or gpus or 1, gpus)
        cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return Local(self.workers or cpus // (processes * numerics.threads) or 1, gpus=0)

    def __call__(self, tasks: Sequence[Task]) -> Generator[Event, None, None]:
        names = _named_gpus()[: self.gpus] or [str(number) for number in range(self.gpus or 0)]
        if self.gpus is None:
            tasks, names = [replace(task, gpus=0) for task in tasks], []
        gpus = Gpus(names, self.at_once)

        # A task that requests more GPUs than there are would wait forever.
        most = max((task.gpus for task in tasks), default=0)
        if most > len(names):
            asked = f"limits: a cell requests {most} GPUs (processes_per_cell x gpus_per_cell)"
            raise UserError(f"{asked} and this machine has {len(names)}; request fewer")

        waiting = deque(tasks)
        running: dict[int, _Running] = {}  # by their process's sentinel
        try:
            while waiting or running:
                while waiting and len(running) < self.at_once and (taken := gpus.take(waiting[0].gpus)) is not None:
                    started = _start(waiting.popleft(), taken)
                    running[started.process.sentinel] = started
                    yield TaskProgress(started.task.key)
                inboxes = {r.inbox: r for r in running.values() if not r.inbox.closed}
                deadline = min(r.deadline for r in running.values())
                timeout = None if deadline == math.inf else max(deadline - time.monotonic(), 0)
                for ready in connection.wait([*inboxes, *running], timeout):
                    if isinstance(ready, connection.Connection):
                        yield from _read(inboxes[ready])
                    elif ready in running:
                        ended = running.pop(ready)
                        gpus.give_back(ended.gpus)
                        yield from _read(ended)
                        ended.process.join()
                        ended.inbox.close()
                        yield ended.outcome or _without_word(ended.task, ended.process.exitcode)

                # What those have reported last that take too long still counts: it is read after this.
                overdue = [child for child in running.values() if child.deadline <= time.monotonic()]
                for child in overdue:
                    minutes = (child.task.limit_s or 0) / 60
                    child.outcome = Ended(child.task.key, failure=f"time limit of {minutes:g} min")
                    child.deadline = math.inf
                _stop(overdue)
        finally:
            _stop(running.values())


class Gpus:
    """Which tasks use which GPUs: at most as many on each as `workers` spread over all make necessary."""

    def __init__(self, names: Sequence[str], workers: int) -> None:
        most = max(1, math.ceil(workers / len(names))) if names else 0
        self.free = Counter(dict.fromkeys(names, most))

    def take(self, count: int) -> tuple[str, ...] | None:
        """Return the least used `count` of them, or None while so many are not free."""
        least_used = [name for name, free in self.free.most_common(count) if free]
        if len(least_used) < count:
            return None
        self.free.subtract(least_used)
        return tuple(least_used)

    def give_back(self, names: Sequence[str]) -> None:
        self.free.update(names)


def _start(task: Task, gpus: tuple[str, ...]) -> _Running:
    for left in reversed(range(STARTS)):
        inbox, outbox = _context.Pipe(duplex=False)
        process = _context.Process(target=_child, args=(task, outbox, gpus))
        try:
            with _no_script(), variables(PYTHONSAFEPATH="1", **{RUNNER: str(os.getpid())}):
                _start_server()
                process.start()
            break
        except (OSError, EOFError) as error:
            if left:
                time.sleep(1)
            elif isinstance(error, (EOFError, ConnectionError)):
                rule = "the server that cells are forked from ends as it starts, as it does where memory is short"
                raise UserError(f"{rule}; {OUT_OF_MEMORY}") from None
            else:
                raise
        finally:
            outbox.close()
    deadline = math.inf if task.limit_s is None else time.monotonic() + task.limit_s
    return _Running(task, process, inbox, gpus, deadline)


def _start_server() -> None:
    """Start the server that children are forked from, if there is none; Ctrl-C, which reaches both, is the runner's."""
    _context.set_forkserver_preload(_PRELOADED)
    resource_tracker.ensure_running()  # here, since it unblocks what is blocked below
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # the server inherits it
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _no_script() -> Iterator[None]:
    """Hide the script that this process was started as, which a child would import and thereby run."""
    script = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = script


def _named_gpus() -> list[str]:
    """The GPUs that this process may see, where that is said."""
    return [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]


def _read(child: _Running) -> Iterator[TaskProgress]:
    """All messages in the inbox; the task's end is kept until its process has ended."""
    while not child.inbox.closed and child.inbox.poll():
        try:
            message = child.inbox.recv()
        except (EOFError, OSError):  # it ended, perhaps in the middle of a message
            child.inbox.close()
            return
        if isinstance(message, Ended):
            child.outcome, child.deadline = message, math.inf
        else:
            yield message


def _without_word(task: Task, code: int) -> Ended:
    """The end of a task whose process did not report one."""
    if code == _SERVER_GONE:
        return Ended(task.key, failure="the process was lost with the server that it was forked from", lost=True)
    if code >= 0:
        return Ended(task.key, failure=f"the process ended with status {code}; its log: {task.log.name}")
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    if -code in _CRASHES:
        return Ended(task.key, failure=f"crash in native code ({name}); its log: {task.log.name}")
    hint = ": by a user, or by the kernel because memory ran out" if -code == signal.SIGKILL else ""
    return Ended(task.key, failure=f"the process was killed by {name}{hint}", lost=True)


def _stop(children: Collection[_Running]) -> None:
    """They are gone afterwards: they no longer write anything."""
    for child in children:
        child.process.terminate()
    for child in children:
        child.process.join(PATIENCE_S)
        child.process.kill()
        child.process.join(PATIENCE_S)


def _child(task: Task, outbox: connection.Connection, gpus: tuple[str, ...]) -> None:
    from tread_bench.runner.executors.server import PID, failure  # imported before by our server

    end_with_parent(PID)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # Ctrl-C is the runner's, also below another's server
    if failure:
        return outbox.send(Ended(task.key, failure=failure))

    if gpus:
        # torch is imported, but reads this when it first asks for a device; so do the ranks of a cell
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)

    def send(news: TaskProgress | Ended) -> None:
        try:
            outbox.send(news)
        except OSError:  # the runner is gone: this process ends, and its task has not failed
            os._exit(1)

    send(perform(task, send))
