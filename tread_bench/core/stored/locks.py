"""File locks, which the kernel releases when the process that holds them dies."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tread_bench.core.stored.outputs import open_plain

LOOKS, LOOK_S = 10, 0.02  # `is_locked` holds a lock for an instant to test it


@contextmanager
def waited_for(path: Path) -> Iterator[None]:
    """Hold a file's lock, creating the file if needed; other processes wait. Raises OutputError."""
    with open_plain(path, "a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def try_lock(file: IO[str], shared: bool = False) -> None:
    """Lock an open file until it is closed.

    Raises:
        BlockingIOError: another process holds the lock for longer than a test of it takes.
        OSError: the file system does not support locks.
    """
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    for left in reversed(range(LOOKS)):
        try:
            return fcntl.flock(file, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if not left:
                raise
            time.sleep(LOOK_S)


def is_locked(path: Path) -> bool | None:
    """Return whether a process holds a file's lock; None if the file system cannot tell."""
    mode = "r+" if os.access(path, os.W_OK) else "r"  # NFS locks only files that are open for writing
    try:
        with open(path, mode) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    except OSError:
        return None
    return False
