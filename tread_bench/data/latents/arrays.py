"""NumPy arrays of a known shape, and numbers, read from bytes that nobody has to trust."""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import IO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from tread_bench.core.errors import UserError
from tread_bench.data.latents.layouts import CONVERTED

_MAGIC_BYTES = 8
_LENGTH_BYTES = 4  # at most, of the number behind them that says how long the header is
_LONGEST_HEADER = 4096
_READERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
FLOATS = ("float32", "float16")
LONGEST_NUMBER = 18  # digits that 64 bits always hold


class WrongShapeError(UserError):
    """An array of another shape than expected; `shape` is its own."""

    def __init__(self, message: str, shape: tuple[int, ...]) -> None:
        super().__init__(message)
        self.shape = shape


@dataclass(frozen=True, slots=True)
class NpyHeader:
    """What an .npy file declares of its array; `length` is that of the header itself, in bytes."""

    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    is_fortran: bool
    length: int

    @property
    def array_bytes(self) -> int:
        """Of the array behind the header."""
        return math.prod(self.shape) * self.dtype.itemsize


def npy_header(stream: IO[bytes]) -> NpyHeader:
    """Read the header of an .npy file, up to the array's first byte. Raises ValueError."""
    head = stream.read(_MAGIC_BYTES + _LENGTH_BYTES)
    end = _header_end(head)
    head += stream.read(max(0, end - len(head)))
    if len(head) != end:
        raise ValueError("cut short inside its NumPy header")
    return _header(head)


def npy_array(
    content: bytes, where: str, shape: tuple[int, ...], types: tuple[str, ...] = FLOATS, key: str = "array"
) -> NDArray[np.generic]:
    """Return the array of an .npy file, read-only, without a copy.

    Args:
        where: file and place, for messages.
        key: what the array is called.

    Raises:
        UserError: it is not an .npy file, has another type, or not the bytes that its header declares.
        WrongShapeError: it has another shape.
    """
    # Read the header, without what could run code.
    try:
        header = _header(content[: _header_end(content)])
    except ValueError as error:
        raise UserError(f"{where}: {key}: {error}") from None
    if header.dtype.hasobject:
        raise UserError(
            f"{where}: {key} holds Python objects, which can run any code when they are opened; where you trust "
            f"them, {CONVERTED}"
        )

    # Hold it against what is expected, and the content against it.
    if header.dtype.name not in types or header.is_fortran:
        order = " in Fortran order" if header.is_fortran else ""
        raise UserError(f"{where}: {key} is {header.dtype.name}{order}; store {' or '.join(types)}")
    if header.shape != shape:
        raise WrongShapeError(f"{where}: {key} of shape {header.shape}; expected {shape}", header.shape)
    expected = header.length + header.array_bytes
    if len(content) != expected:
        raise UserError(
            f"{where}: {key} has {len(content):,} bytes where its header declares {expected:,}; copy it again"
        )
    return np.frombuffer(content, header.dtype, offset=header.length).reshape(shape)


def ascii_number(content: bytes, where: str) -> int:
    """Return a whole number of at most 18 digits, with or without white space around it.

    Args:
        where: file and place, for messages.

    Raises:
        UserError: it is anything else.
    """
    if not content.strip().isdigit() or len(content) > LONGEST_NUMBER:
        raise UserError(
            f"{where} is {content[:20]!r}, and must be a number in ASCII of at most {LONGEST_NUMBER} digits"
        )
    return int(content)


def _header_end(content: bytes) -> int:
    if content[:6] != npy.MAGIC_PREFIX or len(content) < _MAGIC_BYTES + _LENGTH_BYTES:
        raise ValueError("not a NumPy array (.npy)")
    width = 2 if content[6] == 1 else 4
    length = int.from_bytes(content[_MAGIC_BYTES : _MAGIC_BYTES + width], "little")
    if length > _LONGEST_HEADER:
        raise ValueError(f"a NumPy header of {length:,} bytes, and none needs {_LONGEST_HEADER:,}")
    return _MAGIC_BYTES + width + length


@lru_cache(maxsize=64)  # the files of a set have one header
def _header(head: bytes) -> NpyHeader:
    """Raises ValueError."""
    try:
        stream = io.BytesIO(head)
        shape, is_fortran, dtype = _READERS[npy.read_magic(stream)](stream)
    except (KeyError, ValueError, TypeError, SyntaxError, RecursionError, MemoryError, EOFError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(f"not a readable NumPy header ({reason})") from None
    if min(shape, default=0) < 0:
        raise ValueError(f"a NumPy header with the shape {shape}")
    return NpyHeader(shape, dtype, is_fortran and len(shape) > 1, len(head))
