"""Moments in an LMDB as MaskDiT writes it: `z-{i}`, raw float32 (2C, H, W); `y-{i}` and `length`, ASCII numbers."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
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
from tread_bench.data.latents.cache import Arrays, remembered
from tread_bench.data.latents.family import LatentsData
from tread_bench.data.latents.store import Store


class LmdbStore(Store):
    """Samples by number, in databases that are mapped into memory. Raises UserError naming file and key."""

    def __init__(self, choice: LatentsData, paths: Sequence[str]) -> None:
        self._databases = [_open(path) for path in paths]
        super().__init__(choice, paths, list(map(_labels, self._databases, paths)))

    def read(self, rows: NDArray[np.int64], is_mirrored: NDArray[np.bool_]) -> NDArray[np.float32]:
        """(B, 2C, H, W) float32."""
        found = np.empty((len(rows), *self.choice.stored_shape), dtype=np.float32)
        for shard, positions, numbers in self.by_file(rows):
            with _damage_reported(self.paths[shard]), self._databases[shard].begin(buffers=True) as read:
                for position, number in zip(positions.tolist(), numbers.tolist(), strict=True):
                    found[position] = self._values(read, shard, number)
        return found

    def _values(self, read: Any, shard: int, number: int) -> NDArray[np.float32]:
        content = read.get(b"z-%d" % number)
        shape = self.choice.stored_shape
        expected = 4 * int(np.prod(shape))
        if content is None or len(content) != expected:
            has = "missing" if content is None else f"{len(content):,} bytes"
            raise UserError(
                f"{self.paths[shard]}: z-{number} is {has}, and float32 moments {shape} are {expected:,} bytes: set "
                "data.channels and data.image_size, or write the database again"
            )
        return np.frombuffer(content, dtype="<f4").reshape(shape)

    def where(self, row: int) -> str:
        """Database and key."""
        shard, number = self.place_of(row)
        return f"{self.paths[shard]}: z-{number}"


def lmdb_package() -> Any:
    """Return the module `lmdb`. Raises UserError where it is not installed."""
    try:
        import lmdb
    except ImportError:
        raise UserError("layout maskdit-lmdb needs the package lmdb: pip install 'tread-bench[lmdb]'") from None
    return lmdb


def _open(path: str) -> Any:
    with named_where_unreadable(path), open_file(path) as file:
        about = os.fstat(file.fileno())
    try:
        return _environment(os.path.realpath(path), about.st_size, stamp_of(about))
    except ValueError as error:
        raise UserError(f"{path}: {error}") from None


@cache  # a process may open a database once, by whatever names
def _environment(path: str, size: int, stamp: str) -> Any:
    """Raises ValueError where it cannot be read, or not completely."""
    lmdb = lmdb_package()
    try:
        environment = lmdb.open(
            path, subdir=False, readonly=True, lock=False, readahead=False, meminit=False, max_readers=64
        )
        pages = environment.info()["last_pgno"] + 1
        page_bytes = environment.stat()["psize"]
    except lmdb.Error as error:
        raise ValueError(f"not a readable LMDB ({error})") from None
    if size < pages * page_bytes:  # reading beyond the end of a mapped file would end the process
        raise ValueError(f"{size:,} bytes where its header declares {pages * page_bytes:,}; it was cut, copy it again")
    return environment


def _labels(database: Any, path: str) -> NDArray[np.int64]:
    return remembered(path, [], lambda: _read_labels(database, path))["labels"]


def _read_labels(database: Any, path: str) -> Arrays:
    with _damage_reported(path), database.begin() as read:
        count = _number(read.get(b"length"), f"{path}: length")
        if not 0 < count <= database.stat()["entries"]:
            raise UserError(f"{path}: length {count} where it has {database.stat()['entries']} entries")
        labels = [_number(read.get(b"y-%d" % i), f"{path}: y-{i}") for i in range(count)]
    return {"labels": np.array(labels, dtype=np.int64)}


@contextmanager
def _damage_reported(path: str) -> Iterator[None]:
    """Raises UserError, which names the database, for what LMDB raises."""
    try:
        yield
    except lmdb_package().Error as error:
        raise UserError(f"{path}: a damaged LMDB ({error}); copy it again, or write it again") from None


def _number(content: bytes | None, where: str) -> int:
    if content is None:
        raise UserError(f"{where} is missing; write the database again")
    return ascii_number(content, where)
