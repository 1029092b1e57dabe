"""The signals that end a run like Ctrl-C."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

INTERRUPTED = 130  # exit status of a command that Ctrl-C ended, as in shells


@contextmanager
def signals_interrupt() -> Iterator[None]:
    """Let SIGTERM and a lost terminal end the body like Ctrl-C: children first, nothing half written."""
    heard = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) != signal.SIG_IGN]  # as under nohup
    before = {number: signal.signal(number, signal.default_int_handler) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
