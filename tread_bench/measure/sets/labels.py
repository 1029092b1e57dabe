"""The classes of the images of a set."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tread_bench.core.errors import UserError
from tread_bench.measure.sets.npz import Npz, npy_file

NAMES = ("arr_1", "labels", "label")  # of labels beside images; `arr_1` in ADM's files
MOST_BYTES = 2**30
_INTEGERS = "iu"


def labels_of_file(path: Path, count: int | None) -> NDArray[np.int64]:
    """Labels (n,) of an .npy file; `count`, where it is known, is the number of images. Raises UserError."""
    values = npy_file(path, MOST_BYTES)
    _check_form(values.dtype, values.shape, str(path), count)
    return _checked(values, str(path))


def labels_of_npz(npz: Npz, count: int) -> NDArray[np.int64] | None:
    """Labels (n,) beside the images of an .npz file; None where no array of integers has their name.

    Raises:
        UserError: they are not one number for each image.
    """
    for name in NAMES:
        if name in npz.names and (header := npz.header(name)).dtype.kind in _INTEGERS:
            where = f"{npz.path}: {name}"
            _check_form(header.dtype, header.shape, where, count)
            return _checked(npz.array(name, MOST_BYTES), where)
    return None


def array_sha256(labels: NDArray[np.int64]) -> str:
    """Return the hash of labels (n,), whatever the machine's order of bytes."""
    return hashlib.sha256(labels.astype("<i8").tobytes()).hexdigest()


def _check_form(dtype: np.dtype[np.generic], shape: tuple[int, ...], where: str, count: int | None) -> None:
    """Raises UserError."""
    if dtype.kind not in _INTEGERS or len(shape) != 1:
        raise UserError(f"{where} is {dtype.name} of shape {shape}; labels are integers of shape (n,)")
    if count is not None and shape != (count,):
        raise UserError(f"{where} has {shape[0]:,} labels for {count:,} images; store one for each, in their order")


def _checked(values: NDArray[np.integer], where: str) -> NDArray[np.int64]:
    """As int64. Raises UserError."""
    largest = np.iinfo(np.int64).max
    ends = (values.argmin(), values.argmax()) if len(values) else ()
    for place in ends:
        if not 0 <= int(values[place]) <= largest:
            raise UserError(f"{where}: label {values[place]} of image {place:,}; classes are numbered from 0")
    return values.astype(np.int64)
