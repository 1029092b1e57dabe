"""The classes of the images of a set."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tread_bench.core.errors import UserError
from tread_bench.data.latents.arrays import npy_file
from tread_bench.measure.sets.npz import Npz

NAMES = ("arr_1", "labels", "label")  # of labels beside images; `arr_1` in ADM's files
MOST_BYTES = 2**30
_INTEGERS = "iu"  # kinds of NumPy types
_NUMBERS = "biuf"


def labels_of_file(path: Path, count: int | None) -> NDArray[np.int64]:
    """Labels (n,) of an .npy file; `count`, where it is known, is the number of images. Raises UserError."""
    values = npy_file(path, MOST_BYTES)
    _check_form(values.dtype, values.shape, str(path), count)
    return _checked(values, str(path))


def labels_of_npz(npz: Npz, count: int) -> NDArray[np.int64] | None:
    """Labels (n,) beside the images of an .npz file; None where no array has their name.

    Raises:
        UserError: they are not one class for each image.
    """
    for name in NAMES:
        if name in npz.names:
            header, where = npz.header(name), f"{npz.path}: {name}"
            _check_form(header.dtype, header.shape, where, count)
            return _checked(npz.array(name, MOST_BYTES), where)
    return None


def array_sha256(labels: NDArray[np.int64]) -> str:
    """Return the hash of labels (n,), whatever the machine's order of bytes."""
    return hashlib.sha256(labels.astype("<i8").tobytes()).hexdigest()


def _check_form(dtype: np.dtype[np.generic], shape: tuple[int, ...], where: str, count: int | None) -> None:
    """Raises UserError."""
    if dtype.kind not in _NUMBERS or len(shape) not in (1, 2):
        raise _no_labels(dtype, shape, where)
    if count is not None and shape[0] != count:
        raise UserError(f"{where} has {shape[0]:,} labels for {count:,} images; store one for each, in their order")


def _no_labels(dtype: np.dtype[np.generic], shape: tuple[int, ...], where: str) -> UserError:
    return UserError(
        f"{where} is {dtype.name} of shape {shape}; labels are whole numbers of shape (n,), or rows of shape (n, "
        "classes) with a single 1 among zeros: store them so, or give what is no label another name"
    )


def _checked(values: NDArray[Any], where: str) -> NDArray[np.int64]:
    """Classes (n,) of whole numbers, or of one-hot rows. Raises UserError."""
    # One whole number for each image.
    numbers = values.argmax(1) if _is_one_hot(values) else values
    if numbers.ndim != 1 or not _is_whole(numbers):
        raise _no_labels(values.dtype, values.shape, where)

    # Their range.
    largest = np.iinfo(np.int64).max
    ends = (numbers.argmin(), numbers.argmax()) if len(numbers) else ()
    for place in ends:
        if not 0 <= int(numbers[place]) <= largest:
            raise UserError(f"{where}: label {numbers[place]} of image {place:,}; classes are numbered from 0")
    return numbers.astype(np.int64)


def _is_one_hot(values: NDArray[Any]) -> bool:
    """Whether these are rows with a single 1 among zeros."""
    if values.ndim != 2 or values.shape[1] < 2:
        return False
    return bool((np.count_nonzero(values, axis=1) == 1).all() and (values.max(1) == 1).all())


def _is_whole(values: NDArray[Any]) -> bool:
    """Whether these are integers, or floating-point numbers without a fraction."""
    if values.dtype.kind == "f":
        return bool((np.isfinite(values) & (np.floor(values) == values)).all())
    return values.dtype.kind in _INTEGERS
