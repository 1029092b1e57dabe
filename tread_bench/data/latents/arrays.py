"""NumPy arrays of a known shape, read from bytes that nobody has to trust."""

from __future__ import annotations

import io
import math
from functools import lru_cache

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from tread_bench.core.errors import UserError

_MAGIC_BYTES = 8
_LONGEST_HEADER = 4096
_READERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
FLOATS = ("float32", "float16")


class WrongShapeError(UserError):
    """An array of another shape than expected; `shape` is its own."""

    def __init__(self, message: str, shape: tuple[int, ...]) -> None:
        super().__init__(message)
        self.shape = shape


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
        head = content[: _header_end(content)]
        found, dtype, is_fortran = _header(head)
    except ValueError as error:
        raise UserError(f"{where}: {key}: {error}") from None
    if dtype.hasobject:
        raise UserError(
            f"{where}: {key} holds Python objects, which can run any code when they are opened; convert them once "
            "with `tread-bench convert`"
        )

    # Hold it against what is expected, and the content against it.
    if dtype.name not in types or is_fortran:
        order = " in Fortran order" if is_fortran else ""
        raise UserError(f"{where}: {key} is {dtype.name}{order}; store {' or '.join(types)}")
    if found != shape:
        raise WrongShapeError(f"{where}: {key} of shape {found}; expected {shape}", found)
    expected = len(head) + math.prod(shape) * dtype.itemsize
    if len(content) != expected:
        raise UserError(
            f"{where}: {key} has {len(content):,} bytes where its header declares {expected:,}; copy it again"
        )
    return np.frombuffer(content, dtype, offset=len(head)).reshape(shape)


def _header_end(content: bytes) -> int:
    if content[:6] != npy.MAGIC_PREFIX or len(content) < _MAGIC_BYTES + 4:
        raise ValueError("not a NumPy array (.npy)")
    width = 2 if content[6] == 1 else 4
    length = int.from_bytes(content[_MAGIC_BYTES : _MAGIC_BYTES + width], "little")
    if length > _LONGEST_HEADER:
        raise ValueError(f"a NumPy header of {length:,} bytes, and none needs {_LONGEST_HEADER:,}")
    return _MAGIC_BYTES + width + length


@lru_cache(maxsize=64)  # the files of a set have one header
def _header(head: bytes) -> tuple[tuple[int, ...], np.dtype[np.generic], bool]:
    """Shape and type of an array, and whether it is in Fortran order. Raises ValueError."""
    try:
        stream = io.BytesIO(head)
        shape, is_fortran, dtype = _READERS[npy.read_magic(stream)](stream)
    except (KeyError, ValueError, TypeError, SyntaxError, RecursionError, MemoryError, EOFError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(f"not a readable NumPy header ({reason})") from None
    return shape, dtype, is_fortran and len(shape) > 1
