"""Arrays of .npz files that nobody has to trust: headers are read first, large arrays as a stream, pickles never."""

from __future__ import annotations

import math
import os
import stat
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from tread_bench.core.errors import UserError, printable
from tread_bench.core.names import few
from tread_bench.data.latents.arrays import NpyHeader, npy_header

PICKLED = (
    "holds Python objects (a pickle), which can run any code when they are opened; where you trust it, load it "
    "yourself once and store its arrays with numpy.savez"
)
_SUFFIX = ".npy"
_METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}  # what numpy.savez and numpy.savez_compressed write
_IS_ENCRYPTED = 0x1  # flag of a member
_FREELY = 2**30  # bytes that a member may unpack to, whatever its size in the file
_MOST_RATIO = 200  # of a larger member; images that are not empty compress far less
_CHUNK = 2**20  # bytes that are skipped at a time
_LONGEST_REASON = 160  # characters
_NAMED = 8  # arrays that a message names


class Npz:
    """The arrays of an .npz file, each by its name.

    Raises:
        UserError: from every method, naming file and member: the file is not a zip archive, or damaged; a member is
            pickled, not what its header declares, or a zip bomb.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        check_plain_file(path)
        if path.suffix.lower() == ".zip":
            raise UserError(f"{path}: a zip archive; unpack it and name the folder, or name an .npz file")
        with self._opened() as archive:
            members = archive.infolist()
        self._members = {member.filename.removesuffix(_SUFFIX): member for member in members}
        if len(self._members) != len(members):
            raise UserError(f"{path}: two of its members have one name, so it is unclear which counts; write it again")

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
            return _whole(stream, header, f"{self.path}: {name}", most_bytes)

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
            _check_end(stream)

    @contextmanager
    def _array(self, name: str) -> Iterator[tuple[NpyHeader, IO[bytes]]]:
        """The checked header of an array, and the stream of its values."""
        member = self._members[name]
        self._check_packing(name, member)
        with self._opened() as archive, self._reported(name), archive.open(member) as stream:
            header = _header(stream, f"{self.path}: {name}")
            declared = header.length + header.array_bytes
            if member.file_size != declared:
                raise UserError(
                    f"{self.path}: {name} has {member.file_size:,} bytes where its header declares {declared:,}; copy "
                    "the file again"
                )
            yield header, stream

    def _check_packing(self, name: str, member: zipfile.ZipInfo) -> None:
        where = f"{self.path}: {name}"
        if member.flag_bits & _IS_ENCRYPTED:
            raise UserError(f"{where} is encrypted; write the file with numpy.savez")
        if member.compress_type not in _METHODS:
            raise UserError(f"{where} is compressed in another way than NumPy's; write the file with numpy.savez")
        if member.file_size > max(_FREELY, _MOST_RATIO * member.compress_size):
            raise UserError(
                f"{where} would unpack from {member.compress_size:,} bytes to {member.file_size:,}, more than "
                f"{_MOST_RATIO} times as many, as a zip bomb does; if it is real, write it with numpy.savez"
            )

    @contextmanager
    def _opened(self) -> Iterator[zipfile.ZipFile]:
        try:
            archive = zipfile.ZipFile(self.path)
        except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError) as error:
            raise UserError(f"{self.path}: {self._not_a_zip(error)}") from None
        with archive:
            yield archive

    def _not_a_zip(self, error: Exception) -> str:
        """What the file is instead."""
        if isinstance(error, OSError):
            return f"cannot be read ({error.strerror}); make it readable"
        with self.path.open("rb") as file:
            head = file.read(len(_PICKLE_HEADS[0]))
        if head in _PICKLE_HEADS:
            return PICKLED
        if head.startswith(b"PK"):
            return f"a damaged .npz archive, or one that was cut short ({_reason(error)}); copy it again"
        return f"not an .npz archive ({_reason(error)}); write it with numpy.savez(path, arr_0=images)"

    @contextmanager
    def _reported(self, name: str) -> Iterator[None]:
        """Raises UserError for whatever damaged bytes make the archive's reader raise."""
        try:
            yield
        except UserError:
            raise
        except (OSError, zipfile.BadZipFile, zlib.error, ValueError, EOFError, NotImplementedError, RuntimeError) as e:
            raise UserError(f"{self.path}: {name} cannot be read ({_reason(e)}); copy the file again") from None


_PICKLE_HEADS = tuple(bytes([0x80, protocol]) for protocol in range(2, 6))


def check_plain_file(path: Path) -> None:
    """Raise UserError where there is no file, or a device or a pipe, which may never end."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        raise UserError(f"{path}: no such file (looked in {Path.cwd()})") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); give another path") from None
    if not stat.S_ISREG(mode):
        raise UserError(f"{path}: not a file; give another path")
    if not os.access(path, os.R_OK):
        raise UserError(f"{path}: cannot be read (no permission); make it readable")


def npy_file(path: Path, most_bytes: int) -> NDArray[Any]:
    """Return the array of an .npy file, of at most that many bytes, with the machine's byte order. Raises UserError."""
    check_plain_file(path)
    try:
        with path.open("rb") as file:
            return _whole(file, _header(file, f"{path}:"), f"{path}: an array", most_bytes)
    except UserError:
        raise
    except EOFError as error:
        raise UserError(f"{path}: {error}, by what its header declares; copy it again") from None
    except ValueError as error:
        raise UserError(f"{path}: {_reason(error)}; write it with numpy.save") from None


def _header(stream: IO[bytes], where: str) -> NpyHeader:
    """That of an array without Python objects. Raises UserError or ValueError."""
    header = npy_header(stream)
    if header.dtype.hasobject:
        raise UserError(f"{where} {PICKLED}")
    return header


def _whole(stream: IO[bytes], header: NpyHeader, where: str, most_bytes: int) -> NDArray[Any]:
    """An array of at most that many bytes, with the machine's byte order. Raises UserError or EOFError."""
    if header.array_bytes > most_bytes:
        raise UserError(
            f"{where} of shape {header.shape} has {header.array_bytes:,} bytes, more than the {most_bytes:,} that such "
            "an array can have"
        )
    values: NDArray[Any] = np.frombuffer(_read(stream, header.array_bytes), header.dtype)
    _check_end(stream)
    return values.reshape(header.shape, order="F" if header.is_fortran else "C").astype(
        header.dtype.newbyteorder("="), copy=False
    )


def _reason(error: Exception) -> str:
    """What a reader says, in one line; it may quote what it read."""
    text = printable(str(error)) or type(error).__name__
    return text if len(text) <= _LONGEST_REASON else f"{text[:_LONGEST_REASON]}…"


def _read(stream: IO[bytes], size: int) -> bytes:
    content = stream.read(size)
    if len(content) != size:
        raise EOFError("cut short")
    return content


def _check_end(stream: IO[bytes]) -> None:
    """The archive's reader compares checksums when it has read a member to its end."""
    if stream.read(1):
        raise EOFError("more bytes than declared")
