"""Python's garbage collector, out of the way while much is made that has no reference cycles."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_at_rest() -> Iterator[None]:
    """Pause the garbage collector while many documents are read, or many cells planned.

    They contain no reference cycles, and the search for them takes up to a third of the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
