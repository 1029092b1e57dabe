"""A process that does not outlive its parent, however that dies and whatever itself is busy with."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_IMPORTED_BY = os.getpid()  # in a forked child still the server, which imports this before its first fork


def end_with_parent() -> None:
    """Have the kernel end this process when its parent ends. Linux alone knows this; elsewhere nothing happens."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def end_with_server() -> None:
    """`end_with_parent` in a forked child; at once where the parent has gone before it could be asked for."""
    end_with_parent()
    if os.getppid() != _IMPORTED_BY:
        os._exit(1)
