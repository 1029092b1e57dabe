"""SIGTERM while a cell trains: the step at hand ends and a checkpoint is written, then the process ends."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Self

from tread_bench.core.errors import LostError
from tread_bench.data.ranks import Ranks

AGREED_EVERY = 8  # steps of several ranks, which stop at the same one


class StoppedError(LostError):
    """Training was stopped from outside, and what was trained is saved."""


class Stopping:
    """Hears SIGTERM as long as it is entered, in the main thread; elsewhere the process ends as it always does."""

    def __init__(self) -> None:
        self.is_requested = False
        self._is_training = True

    def __enter__(self) -> Self:
        self._is_heard = threading.current_thread() is threading.main_thread()
        if self._is_heard:
            self._before = signal.signal(signal.SIGTERM, self._hear)
        return self

    def __exit__(self, *raised: object) -> None:
        if self._is_heard:
            signal.signal(signal.SIGTERM, self._before)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self.is_requested = True
        if not self._is_training:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """In the body, which is long and leaves nothing to save, the signal ends the process at once."""
        self._is_training = False
        try:
            yield
        finally:
            self._is_training = True

    def is_agreed(self, step: int, ranks: Ranks) -> bool:
        """Return whether to stop before this step, on all ranks alike."""
        if ranks.size == 1:
            return self.is_requested
        return step % AGREED_EVERY == 0 and ranks.any(self.is_requested)
