"""Ctrl-C, and the signals that end a command like Ctrl-C."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

STATUS = 130  # exit status of an interrupted command, as in shells
GRACE_S = 3.0  # time for cleaning up, in which a second Ctrl-C is ignored; a later one ends at once
_SHOW_CURSOR = b"\x1b[?25h"  # a progress display hides it


class Interrupts:
    """Handles Ctrl-C according to how far a command has come.

    During start-up nothing needs cleaning up and the process ends at once: an exception in the middle of an import may
    be swallowed or turned into another one. While the command works, the first Ctrl-C raises KeyboardInterrupt. Once
    its exit status is known, Ctrl-C no longer changes it.
    """

    def __init__(self) -> None:
        self.is_installed = self.works = False
        self.heard_at: float | None = None  # on the monotonic clock
        self.status = STATUS  # exit status if the process ends at once

    def install(self) -> None:
        """Handle Ctrl-C (unless the process was started to ignore it) and interrupts that Python cannot raise."""
        self.is_installed = True
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, self)
        # No handler runs while the interpreter shuts down; registered first, this is called last.
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
        before = sys.unraisablehook

        def hook(unraisable: sys.UnraisableHookArgs) -> None:
            if isinstance(unraisable.exc_value, KeyboardInterrupt):  # raised where nothing can catch it
                self.end_at_once()
            before(unraisable)

        sys.unraisablehook = hook

    def __call__(self, number: int, frame: object) -> None:
        if self.works and self.heard_at is None:
            self.heard_at = time.monotonic()
            raise KeyboardInterrupt
        if not self.works or self.heard_at is None or time.monotonic() - self.heard_at > GRACE_S:
            self.end_at_once()

    def caused(self, error: BaseException) -> bool:
        """Return whether the error may come from the keyboard, also as another exception; False: code has raised it
        itself.
        """
        return self.heard_at is not None or (not self.is_installed and isinstance(error, KeyboardInterrupt))

    def end_at_once(self) -> None:
        """End without cleaning up; the processes of a run end with their runner, however it ends."""
        if self.status == STATUS:
            shown = _SHOW_CURSOR if self.works and os.isatty(2) else b""
            with suppress(OSError):  # nobody listens
                os.write(2, shown + b"interrupted\n")
        os._exit(self.status)

    def finish(self, status: int) -> None:
        """Note that the command is over, with its exit status."""
        self.works, self.status = False, status


ctrl_c = Interrupts()  # of this process's command line


@contextmanager
def signals_interrupt() -> Iterator[None]:
    """Let SIGTERM and a lost terminal end the body like Ctrl-C: children first, nothing half written."""

    def interrupt(number: int, frame: object) -> None:
        of_ctrl_c = signal.getsignal(signal.SIGINT)
        if isinstance(of_ctrl_c, Interrupts):
            return of_ctrl_c(number, frame)
        raise KeyboardInterrupt

    heard = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) != signal.SIG_IGN]  # as under nohup
    before = {number: signal.signal(number, interrupt) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
