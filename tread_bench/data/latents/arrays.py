"""NumPy arrays of a known shape, and numbers, read from bytes that nobody has to trust."""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import IO, Literal

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from tread_bench.core.errors import UserError
from tread_bench.core.stored.foreign import one_line

_HEADER_BEGINS = 10  # bytes; the last two say how long it is
PICKLED = (
    "holds Python objects (a pickle), which can run any code when they are opened; where you trust it, load it "
    "yourself once and store its arrays with numpy.savez or numpy.save (docs/methods/latents.md)"
)
FLOATS = ("float32", "float16")
LONGEST_NUMBER = 18  # digits that 64 bits always hold


@dataclass(frozen=True, slots=True)
class NpyHeader:
    """What an .npy file declares of its array; `length` is that of the header itself, in bytes."""

    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    order: Literal["C", "F"]
    length: int

    @property
    def array_bytes(self) -> int:
        """Of the array behind the header."""
        return math.prod(self.shape) * self.dtype.itemsize


def npy_header(stream: IO[bytes], where: str) -> NpyHeader:
    """Read the header of an .npy file, up to the array's first byte.

    Args:
        where: file and name of the array, for messages.

    Raises:
        UserError: the array holds Python objects.
        ValueError: it is damaged.
    """
    start = stream.read(_HEADER_BEGINS)
    header = _header(start + stream.read(int.from_bytes(start[_HEADER_BEGINS - 2 :], "little")))
    if header.dtype.hasobject:
        raise UserError(f"{where} {PICKLED}")
    return header


def npy_array(
    content: bytes,
    where: str,
    shape: tuple[int, ...] | None = None,
    types: tuple[str, ...] = FLOATS,
    key: str = "array",
) -> NDArray[np.generic]:
    """Return the array of an .npy file, read-only, without a copy.

    Args:
        where: file and place, for messages.
        shape: that it must have; None: any.
        key: what the array is called.

    Raises:
        UserError: it is not an .npy file, has another type or shape, or not the bytes that its header declares.
    """
    # Read the header, without what could run code.
    where = f"{where}: {key}"
    try:
        header = npy_header(io.BytesIO(content), where)
    except UserError:
        raise
    except ValueError as error:
        raise UserError(f"{where}: {error}; write it with numpy.save") from None

    # Hold it against what is expected, and the content against it.
    if header.dtype.name not in types:
        raise UserError(f"{where} is {header.dtype.name}; store {' or '.join(types)}")
    if shape is not None and header.shape != shape:
        raise UserError(f"{where} of shape {header.shape}; expected {shape}")
    expected = header.length + header.array_bytes
    if len(content) != expected:
        raise UserError(f"{where} has {len(content):,} bytes where its header declares {expected:,}; copy it again")
    return np.frombuffer(content, header.dtype, offset=header.length).reshape(header.shape, order=header.order)


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


@lru_cache(maxsize=64)  # the files of a set have one header
def _header(head: bytes) -> NpyHeader:
    """Raises ValueError."""
    try:
        stream = io.BytesIO(head)
        if (version := npy.read_magic(stream)) != (1, 0):
            raise ValueError(f"version {version}; numpy.save writes arrays of numbers in version 1.0")
        shape, is_fortran, dtype = npy.read_array_header_1_0(stream)
    except Exception as error:  # a damaged header may raise anything
        raise ValueError(f"not a readable NumPy header ({one_line(error)})") from None
    if min(shape, default=0) < 0:
        raise ValueError(f"a NumPy header with the shape {shape}")
    return NpyHeader(shape, dtype, "F" if is_fortran and len(shape) > 1 else "C", len(head))
