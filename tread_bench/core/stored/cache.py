"""What this program remembers between runs, and file locks, which the kernel releases when their process dies.

An entry of the cache can be lost at any time, which costs time alone.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

from tread_bench.core.stored.files import OutputError, open_plain, write_atomically

LOOKS, LOOK_S = 10, 0.02  # `is_locked` holds a lock for an instant to test it


def cache_folder(name: str) -> Path:
    """Return $XDG_CACHE_HOME/tread-bench/NAME, or the same under ~/.cache; without a home, where no folder can be."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(os.devnull if home.startswith("~") else home) / "tread-bench" / name


def keep(path: Path, content: bytes) -> None:
    """Write a file of the cache, if that is possible: one that cannot be written costs time, not results."""
    with suppress(OSError, OutputError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, content)


@contextmanager
def one_at_a_time(name: str) -> Iterator[None]:
    """Hold the lock of that name; other processes wait. Where locks do not work, no process waits.

    The kernel releases the lock of a process that dies.
    """
    folder = cache_folder("locks")
    with ExitStack() as turn:
        with suppress(OSError, OutputError):
            folder.mkdir(parents=True, exist_ok=True)
            turn.enter_context(waited_for(folder / name))
        yield


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
