"""Arrays of .npz files that nobody has to trust: headers are read first, large arrays as a stream, pickles never."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib.format import MAGIC_PREFIX
from numpy.typing import NDArray

from tread_bench.core.errors import UserError, printable
from tread_bench.core.names import few
from tread_bench.core.stored.data_paths import named_where_unreadable
from tread_bench.core.stored.foreign import open_archive, open_file, open_member
from tread_bench.data.latents.arrays import PICKLED, NpyHeader, npy_header, npy_values

_SUFFIX = ".npy"
_MOST_BYTES = 2**40  # of an archive, which is read as a stream
_CHUNK = 2**20  # bytes that are skipped at a time
_NAMED = 8  # arrays that a message names


class Npz:
    """The arrays of an .npz file, each by its name.

    Raises:
        UserError: from every method, naming file and member: the file is not a zip archive, or damaged; a member is
            pickled, or not what its header declares.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if path.suffix.lower() == ".zip":
            raise UserError(f"{path}: a zip archive; unpack it and name the folder, or name an .npz file")
        with self._opened() as archive:
            members = archive.infolist()
        self._members = {member.filename.removesuffix(_SUFFIX): member for member in members}

    @property
    def names(self) -> list[str]:
        """Of the arrays, in the order of the file."""
        return list(self._members)

    def in_words(self) -> str:
        """Return the names of the arrays, for a message."""
        return printable(few(self.names, _NAMED)) or "nothing"

    def header(self, name: str) -> NpyHeader:
        """Shape and type of an array, whose declared size is that of its member."""
        with self._array(name) as (header, _):
            return header

    def array(self, name: str, most_bytes: int) -> NDArray[Any]:
        """Return a whole array, of at most that many bytes, with the machine's byte order."""
        with self._array(name) as (header, stream):
            return npy_values(stream, header, f"{self.path}: {name}", most_bytes)

    def rows(self, name: str, size: int, start: int = 0) -> Iterator[NDArray[Any]]:
        """An array from row `start` on, `size` rows at a time, in order; one part is in memory at a time.

        It must not be in Fortran order. The checksum of the archive is checked at the end.
        """
        with self._array(name) as (header, stream):
            row_bytes = math.prod(header.shape[1:]) * header.dtype.itemsize
            for skipped in range(0, start * row_bytes, _CHUNK):
                _read(stream, min(_CHUNK, start * row_bytes - skipped))
            for first in range(start, header.shape[0], size):
                count = min(size, header.shape[0] - first)
                content = _read(stream, count * row_bytes)
                yield np.frombuffer(content, header.dtype).reshape(count, *header.shape[1:])
            if stream.read(1):  # where its end is reached, its checksum is compared
                raise ValueError("more bytes than declared")

    @contextmanager
    def _array(self, name: str) -> Iterator[tuple[NpyHeader, IO[bytes]]]:
        """The checked header of an array, and the stream of its values."""
        where = f"{self.path}: {name}"
        try:
            with self._opened() as archive, open_member(archive, self._members[name].filename) as stream:
                header = npy_header(stream, where)
                declared = header.length + header.array_bytes
                if self._members[name].file_size != declared:
                    size = f"{self._members[name].file_size:,} bytes where its header declares {declared:,}"
                    raise UserError(f"{where} has {size}; copy the file again")
                yield header, stream
        except UserError:
            raise
        except ValueError as error:
            raise UserError(f"{where} cannot be read ({error}); copy the file again") from None

    @contextmanager
    def _opened(self) -> Iterator[zipfile.ZipFile]:
        with named_where_unreadable(str(self.path)):
            try:
                archive = open_archive(self.path, _MOST_BYTES)
            except ValueError as error:
                raise UserError(f"{self.path}: {self._not_an_npz(error)}") from None
        with archive:
            yield archive

    def _not_an_npz(self, error: ValueError) -> str:
        """What the file is instead."""
        with open_file(self.path) as file:
            head = file.read(len(MAGIC_PREFIX))
        if head.startswith(_PICKLE_HEADS):
            return PICKLED
        if head == MAGIC_PREFIX:
            return (
                "not an .npz archive but a single array (.npy); store images with numpy.savez(path, arr_0=images), "
                "statistics of Inception's features with numpy.savez(path, mu=mean, sigma=covariance)"
            )
        if head.startswith(b"PK"):
            return f"a damaged .npz archive, or one that was cut short ({error}); copy it again"
        return f"not an .npz archive ({error}); write it with numpy.savez(path, arr_0=images)"


_PICKLE_HEADS = tuple(bytes([0x80, protocol]) for protocol in range(2, 6))


def _read(stream: IO[bytes], size: int) -> bytes:
    content = stream.read(size)
    if len(content) != size:
        raise ValueError("cut short")
    return content
