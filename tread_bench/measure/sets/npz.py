"""Arrays of .npz files that others made: large ones as a stream, pickles never."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from tread_bench.core.errors import UserError
from tread_bench.core.names import few
from tread_bench.core.stored.data_paths import named_where_unreadable
from tread_bench.core.stored.foreign import open_archive, open_member
from tread_bench.data.latents.arrays import NpyHeader, npy_header

_MOST_BYTES = 2**40  # of an archive, which is read as a stream
_NAMED = 8  # arrays that a message names
_WAY_OUT = "copy it again; of a pickle that you trust, store the arrays once with numpy.savez(path, mu=..., sigma=...)"


class Npz:
    """The arrays of an .npz file, each by its name.

    Raises:
        UserError: from every method, naming file and member: the file is not a zip archive, or damaged; a member is
            missing, pickled, or not what its header declares.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._opened() as archive:
            self.names = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]

    def header(self, name: str) -> NpyHeader:
        """Shape and type of an array."""
        with self._array(name) as (header, _):
            return header

    def array(self, name: str, most_bytes: int) -> NDArray[Any]:
        """Return a whole array, of at most that many bytes, with the machine's byte order."""
        with self._array(name) as (header, stream):
            if header.array_bytes > most_bytes:
                size = f"of shape {header.shape} has {header.array_bytes:,} bytes"
                rule = f"more than the {most_bytes:,} that such an array can have"
                raise UserError(f"{self.path}: {name} {size}, {rule}")
            content = stream.read(header.array_bytes)
            if len(content) != header.array_bytes or stream.read(1):
                raise ValueError("cut short, or longer than its NumPy header declares")
            values: NDArray[Any] = np.frombuffer(content, header.dtype).reshape(header.shape, order=header.order)
            return values.astype(header.dtype.newbyteorder("="), copy=False)

    def rows(self, name: str, size: int) -> Iterator[NDArray[Any]]:
        """An array in C order, `size` rows at a time; one part is in memory at a time."""
        with self._array(name) as (header, stream):
            count, *shape = header.shape
            row_bytes = math.prod(shape) * header.dtype.itemsize
            for first in range(0, count, size):
                part = min(size, count - first)
                yield np.frombuffer(stream.read(part * row_bytes), header.dtype).reshape(part, *shape)
            if stream.read(1):  # where its end is reached, its checksum is compared
                raise ValueError("more bytes than declared")

    @contextmanager
    def _array(self, name: str) -> Iterator[tuple[NpyHeader, IO[bytes]]]:
        """The header of an array, and the stream of its values."""
        where = f"{self.path}: {name}"
        if name not in self.names:
            raise UserError(f"{self.path}: no array {name} in it; it has {few(self.names, _NAMED) or 'none'}")
        try:
            with self._opened() as archive, open_member(archive, f"{name}.npy") as stream:
                yield npy_header(stream, where), stream
        except UserError:
            raise
        except ValueError as error:
            raise UserError(f"{where} cannot be read ({error}); copy the file again") from None

    def _opened(self) -> zipfile.ZipFile:
        with named_where_unreadable(str(self.path)):
            try:
                return open_archive(self.path, _MOST_BYTES)
            except ValueError as error:
                raise UserError(f"{self.path}: not an .npz archive, or a damaged one ({error}); {_WAY_OUT}") from None
