"""The classes of the images of a set."""

from __future__ import annotations

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
    return _checked(npy_file(path, MOST_BYTES), str(path), count)


def labels_of_npz(npz: Npz, count: int) -> NDArray[np.int64] | None:
    """Labels (n,) beside the images of an .npz file; None where no array of integers has their name.

    Raises:
        UserError: they are not one number for each image.
    """
    for name in NAMES:
        if name in npz.names and npz.header(name).dtype.kind in _INTEGERS:
            return _checked(npz.array(name, MOST_BYTES), f"{npz.path}: {name}", count)
    return None


def _checked(values: NDArray[np.generic], where: str, count: int | None) -> NDArray[np.int64]:
    """As int64. Raises UserError."""
    if values.dtype.kind not in _INTEGERS or values.ndim != 1:
        raise UserError(f"{where} is {values.dtype.name} of shape {values.shape}; labels are integers of shape (n,)")
    if count is not None and len(values) != count:
        raise UserError(f"{where} has {len(values):,} labels for {count:,} images; store one for each, in their order")
    largest = np.iinfo(np.int64).max
    wrong = [place for place in (values.argmin(), values.argmax()) if not 0 <= int(values[place]) <= largest]
    if wrong:
        raise UserError(f"{where}: label {values[wrong[0]]} of image {wrong[0]:,}; classes are numbered from 0")
    return values.astype(np.int64)
