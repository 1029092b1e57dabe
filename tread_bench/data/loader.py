"""Batches made ahead of the steps that use them, by threads, in order and in limited number.

Threads, since the slow parts of a batch (draws, copies, reads, decoding) run outside the interpreter's lock, and since
a thread cannot outlive its process and needs no copy of a CUDA context.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, Self, TypeVar

import torch

T = TypeVar("T")
BATCHES_PER_WORKER = 2  # that are being made or are ready


class Loader(Generic[T]):
    """The result of `make` for each of `steps`, in their order; leaving the context ends its threads.

    A batch is a function of its step alone, so the number of threads changes only the time spent waiting. An exception
    of `make` is raised when the step's turn comes.

    Args:
        workers: threads; 0 makes each batch when it is needed.
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
        self._threads = ThreadPoolExecutor(max(workers, 1), "batches", initializer=_compute_alone)
        self._torch_threads = torch.get_num_threads()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._threads.shutdown(cancel_futures=True)
        torch.set_num_threads(self._torch_threads)  # of threads that torch starts from here on

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        # A batch that is ready costs no time.
        self._fill()
        if self._ahead and self._ahead[0].done():
            return self._ahead.popleft().result()

        # Otherwise wait for it, and count the time from when the device is idle.
        self._synchronize()
        start = self._clock()
        try:
            if self._ahead:
                return self._ahead.popleft().result()
            return self._make(next(self._steps))
        finally:
            self.waited_s += self._clock() - start

    def _fill(self) -> None:
        while len(self._ahead) < self._workers * BATCHES_PER_WORKER:
            step = next(self._steps, None)
            if step is None:
                return
            self._ahead.append(self._threads.submit(self._make, step))


def _compute_alone() -> None:
    """Torch uses no further threads in this thread, which would compete with a training step for its cores."""
    torch.get_num_threads()  # else its first operation would take the number from the process
    torch.set_num_threads(1)
