"""A process of ours: the environment that it starts or imports under, the signals that end it, and its parent."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module

INTERRUPTED = 130  # exit status of a command that Ctrl-C ended, as in shells
RUNNER = "TREAD_BENCH_RUNNER"  # environment variable: id of the process that the server of cells must not outlive
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


@contextmanager
def variables(**values: str) -> Iterator[None]:
    """Set environment variables, and restore them at the end."""
    before = {name: os.environ.pop(name, None) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


def import_matplotlib() -> None:
    """Import Matplotlib, also where the user's settings of it are damaged or name a backend that is not installed."""
    if "matplotlib" in sys.modules:
        return
    with variables(MPLBACKEND="", MATPLOTLIBRC=os.devnull):
        matplotlib = import_module("matplotlib")
    with suppress(ValueError):  # our pictures depend on neither: they are for what the user draws in this process
        matplotlib.rc_file(matplotlib.matplotlib_fname())
    with suppress(KeyError, ValueError):
        matplotlib.rcParams["backend"] = os.environ["MPLBACKEND"]


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


def end_with_parent(parent: int) -> None:
    """Have the kernel end this process when its parent ends, however and whatever it is doing, and end at once if the
    parent is already gone.

    Only Linux can do the first; elsewhere only the second happens.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
