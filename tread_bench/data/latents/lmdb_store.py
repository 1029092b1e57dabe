"""Moments in an LMDB as MaskDiT writes it: `z-{i}`, raw float32 (2C, H, W); `y-{i}` and `length`, ASCII numbers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tread_bench.core.errors import UserError
from tread_bench.core.stored.data_files import stamp_of
from tread_bench.core.stored.data_paths import named_where_unreadable
from tread_bench.core.stored.foreign import open_file
from tread_bench.data.latents.arrays import ascii_number
from tread_bench.data.latents.options import LatentsData
from tread_bench.data.latents.store import Unit


class Database(Unit):
    """Samples by number, in a database that is mapped into memory. Raises UserError naming file and key."""

    def __init__(self, choice: LatentsData, path: str) -> None:
        with named_where_unreadable(path), open_file(path) as file:
            about = os.fstat(file.fileno())
        self._database = _opened(os.path.realpath(path), about.st_size, stamp_of(about))
        with _damage_reported(path), self._database.begin() as read:
            count = ascii_number(read.get(b"length", b""), f"{path}: length")
            labels = [ascii_number(read.get(b"y-%d" % i, b""), f"{path}: y-{i}") for i in range(count)]
        super().__init__(choice, path, np.array(labels, dtype=np.int64))

    def read(self, rows: NDArray[np.int64], is_mirrored: NDArray[np.bool_]) -> Iterator[NDArray[np.generic]]:
        """(2C, H, W) of each."""
        shape = self.choice.stored_shape
        expected = 4 * int(np.prod(shape))
        with _damage_reported(self.path), self._database.begin(buffers=True) as read:
            for row in rows.tolist():
                content = read.get(b"z-%d" % row, b"")
                if len(content) != expected:
                    rule = f"and float32 moments {shape} are {expected:,}: set data.channels and data.image_size"
                    raise UserError(f"{self.where(row)} has {len(content):,} bytes, {rule}, or write it again")
                yield np.frombuffer(content, dtype="<f4").reshape(shape)

    def where(self, row: int) -> str:
        """Database and key."""
        return f"{self.path}: z-{row}"


@contextmanager
def _damage_reported(path: str) -> Iterator[Any]:
    """Yields the module `lmdb`. Raises UserError, which names the database, for what LMDB raises, or without it."""
    try:
        import lmdb
    except ImportError:
        raise UserError("layout maskdit-lmdb needs the package lmdb: pip install 'tread-bench[lmdb]'") from None
    try:
        yield lmdb
    except lmdb.Error as error:
        raise UserError(f"{path}: not a readable LMDB ({error}); copy it again, or write it again") from None


@cache  # a process may open a database once, by whatever names
def _opened(path: str, size: int, stamp: str) -> Any:
    with _damage_reported(path) as lmdb:
        found = lmdb.open(path, subdir=False, readonly=True, lock=False, readahead=False, meminit=False, max_readers=64)
        expected = (found.info()["last_pgno"] + 1) * found.stat()["psize"]
    if size < expected:  # reading beyond the end of a mapped file would end the process
        raise UserError(f"{path}: {size:,} bytes where its header declares {expected:,}; it was cut, copy it again")
    return found
