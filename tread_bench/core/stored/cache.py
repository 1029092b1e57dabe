"""What this program remembers between runs; each entry can be lost at any time, which costs time alone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from tread_bench.core.stored.files import write_atomically
from tread_bench.core.stored.locks import waited_for
from tread_bench.core.stored.outputs import OutputError


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
