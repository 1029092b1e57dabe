"""Tasks in processes of their own on this machine, a few at a time.

Children are forked from a server that has imported torch once, so that a cell starts at once and still shares nothing
with its neighbours. A child ends with its runner, however the runner dies.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from multiprocessing import connection
from pathlib import Path
from typing import Any

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["tread_bench.executors.preload"])
PATIENCE_S = 5.0  # between asking a child to end and ending it


@dataclass(frozen=True, slots=True)
class Task:
    """`function` ("module:name") is called with `arguments`, and with `tell` where it `reports`."""

    key: str
    function: str
    arguments: tuple[Any, ...]
    log: Path
    reports: bool = False


@dataclass(frozen=True, slots=True)
class Started:
    """A task's process is there."""

    key: str


@dataclass(frozen=True, slots=True)
class Told:
    """What a running task reports: a phase, how far it is, the latest loss."""

    key: str
    phase: str
    done: int
    of: int
    loss: float | None


@dataclass(frozen=True, slots=True)
class Ended:
    """A task's end: its value, or why there is none."""

    key: str
    value: Any = None
    failure: str = ""


Event = Started | Told | Ended


@dataclass
class _Running:
    task: Task
    process: Any
    inbox: connection.Connection
    slot: int
    outcome: Ended | None = field(default=None)


def run_tasks(tasks: Sequence[Task], workers: int, gpus: int = 0) -> Generator[Event, None, None]:
    """Run all tasks, at most `workers` at a time, and yield what happens. Leaving the iterator ends what still runs.

    With `gpus`, the workers are spread over that many, and each task sees one alone.
    """
    waiting, slots = deque(tasks), deque(range(workers))
    running: dict[int, _Running] = {}  # by their process's sentinel
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                slot = slots.popleft()
                started = _start(waiting.popleft(), slot, gpus)
                running[started.process.sentinel] = started
                yield Started(started.task.key)
            inboxes = {r.inbox: r for r in running.values() if not r.inbox.closed}
            for ready in connection.wait([*inboxes, *running]):
                if isinstance(ready, connection.Connection):
                    yield from _read(inboxes[ready])
                elif ready in running:
                    ended = running.pop(ready)
                    slots.append(ended.slot)
                    yield from _read(ended)
                    yield _end(ended)
    finally:
        for child in running.values():
            child.process.terminate()
        for child in running.values():
            child.process.join(PATIENCE_S)
            child.process.kill()


def _start(task: Task, slot: int, gpus: int) -> _Running:
    inbox, outbox = _context.Pipe(duplex=False)
    visible = _visible_gpus(gpus)[slot % gpus] if gpus else None
    process = _context.Process(target=_child, args=(task, outbox, visible), daemon=True)
    process.start()
    outbox.close()
    return _Running(task, process, inbox, slot)


def _visible_gpus(count: int) -> list[str]:
    """What CUDA_VISIBLE_DEVICES may name: its own entries where it is set, else the numbers."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    return named.split(",") if named else [str(number) for number in range(count)]


def _read(child: _Running) -> Iterator[Told]:
    """Everything that lies in the inbox; the task's end is kept for when its process has ended."""
    while not child.inbox.closed and child.inbox.poll():
        try:
            message = child.inbox.recv()
        except (EOFError, OSError):  # it ended, perhaps in the middle of a message
            child.inbox.close()
            return
        if isinstance(message, Ended):
            child.outcome = message
        else:
            yield message


def _end(child: _Running) -> Ended:
    child.process.join()
    child.inbox.close()
    if child.outcome is not None:
        return child.outcome
    code = child.process.exitcode
    how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
    hint = " (the kernel does so when memory runs out)" if code == -signal.SIGKILL else ""
    return Ended(child.task.key, failure=f"the process {how}{hint}; its log: {child.task.log.name}")


def _child(task: Task, outbox: connection.Connection, gpu: str | None) -> None:
    if gpu is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu  # torch is imported, but reads this when it first asks for a device
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the runner decides what Ctrl-C ends
    threading.Thread(target=_end_with_runner, daemon=True).start()
    task.log.parent.mkdir(parents=True, exist_ok=True)
    with open(task.log, "ab", buffering=0) as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    module, _, name = task.function.partition(":")
    try:
        function = getattr(import_module(module), name)
        extra = (lambda *news: outbox.send(Told(task.key, *news)),) if task.reports else ()
        outbox.send(Ended(task.key, function(*task.arguments, *extra)))
    except Exception as error:
        import traceback

        traceback.print_exc()
        text = str(error).strip().splitlines()
        outbox.send(Ended(task.key, failure=f"{type(error).__name__}: {text[0] if text else 'no message'}"))
    sys.stdout.flush()
    sys.stderr.flush()


def _end_with_runner() -> None:
    runner = multiprocessing.parent_process()
    assert runner is not None
    connection.wait([runner.sentinel])
    os._exit(1)
