"""Batches made ahead of the steps that use them, by processes, in order and in limited number.

Processes, since a thread that reads and decodes takes the interpreter from the training step. They are forked, so that
they share what the data source has opened; none uses the device.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Generic, Self, TypeVar

import torch
import torch.multiprocessing  # passes tensors between processes in shared memory

from tread_bench.core.errors import LostError
from tread_bench.core.processes import end_with_parent

T = TypeVar("T")
BATCHES_PER_WORKER = 2  # that are being made or are ready


class Loader(Generic[T]):
    """The result of `make` for each of `steps`, in their order; leaving the context ends its processes.

    A batch is a function of its step alone, so the number of processes changes only the time spent waiting. An
    exception of `make` is raised when the step's turn comes.

    Args:
        workers: processes; 0 makes each batch when it is needed.
        synchronize: waits for the device. While the device has work, a step that waits for its batch loses no time.
        clock: returns seconds.
    """

    def __init__(
        self,
        make: Callable[[int], T],
        steps: Iterable[int],
        workers: int,
        synchronize: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.waited_s = 0.0  # for batches, while the device had nothing to do
        self._make = make
        self._steps = iter(steps)
        self._workers = workers
        self._synchronize = synchronize
        self._clock = clock
        self._ahead: deque[Future[T]] = deque()
        self._processes: ProcessPoolExecutor | None = None
        if workers:
            fork = multiprocessing.get_context("fork")
            self._processes = ProcessPoolExecutor(workers, fork, _begin, (make, os.getpid()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        if self._processes is not None:
            self._processes.shutdown(cancel_futures=True)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        # A batch that is ready costs no time.
        self._fill()
        if self._ahead and self._ahead[0].done():
            return self._taken()

        # Otherwise wait for it, and count the time from when the device is idle.
        self._synchronize()
        start = self._clock()
        try:
            return self._taken() if self._ahead else self._make(next(self._steps))
        finally:
            self.waited_s += self._clock() - start

    def _fill(self) -> None:
        while self._processes is not None and len(self._ahead) < self._workers * BATCHES_PER_WORKER:
            step = next(self._steps, None)
            if step is None:
                return
            self._ahead.append(self._processes.submit(_made, step))

    def _taken(self) -> T:
        try:
            return self._ahead.popleft().result()
        except BrokenProcessPool:
            rule = "a process that prepares batches was killed, as where memory or shared memory (/dev/shm) is short"
            raise LostError(f"{rule}: give more, or set compute.data_workers: 0") from None


_make: Callable[[int], Any]  # of the loader that this process belongs to


def _begin(make: Callable[[int], Any], parent: int) -> None:
    """What a process that prepares batches starts with: one thread, and nothing that only its parent is to hear."""
    global _make
    _make = make
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    end_with_parent(parent)
    torch.set_num_threads(1)


def _made(step: int) -> Any:
    return _make(step)
