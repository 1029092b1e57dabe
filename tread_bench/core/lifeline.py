"""A process that does not outlive its parent, however the parent dies and whatever the process is doing."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

RUNNER = "TREAD_BENCH_RUNNER"  # environment variable: id of the process that the server of cells must not outlive
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def end_with_parent(parent: int) -> None:
    """Have the kernel end this process when its parent ends, and end at once if the parent is already gone.

    Only Linux can do the first; elsewhere only the second happens.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
