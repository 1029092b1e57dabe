"""Signals that end a command as Ctrl-C does."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def signals_interrupt() -> Iterator[None]:
    """SIGTERM and a lost terminal end what is inside as Ctrl-C does: children first, nothing half written."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    heard = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) != signal.SIG_IGN]  # as nohup has it
    before = {number: signal.signal(number, interrupt) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
