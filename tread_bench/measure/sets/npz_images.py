"""Images in an .npz file, read from the archive as a stream."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tread_bench.core.errors import UserError, collected
from tread_bench.core.stored.data_files import content_sha256
from tread_bench.data.latents.arrays import NpyHeader
from tread_bench.measure.sets.labels import labels_of_npz
from tread_bench.measure.sets.limits import CHANNELS, MOST_SIDE, Unchanged
from tread_bench.measure.sets.npz import Npz

IMAGES = "arr_0"
_FORM = f"images are {IMAGES}, uint8 of shape (n, H, W, C) with C 1 or 3"


@dataclass(frozen=True)
class NpzStore:
    """Images (n, H, W, C) of an .npz file."""

    npz: Npz
    count: int
    shape: tuple[int, int, int]  # (C, H, W)
    labels: NDArray[np.int64] | None
    unchanged: Unchanged

    @classmethod
    def open(cls, npz: Npz) -> NpzStore:
        """Raises UserError with all mistakes."""
        unchanged = Unchanged.now(str(npz.path))
        if IMAGES not in npz.names:
            raise UserError(f"{npz.path}: no array {IMAGES} in it (it has {npz.in_words()}); {_FORM}")
        header = npz.header(IMAGES)
        problems: list[str] = []
        labels = None
        with collected(problems):
            _check_images(npz.path, header)
        with collected(problems):
            labels = labels_of_npz(npz, header.shape[0] if header.shape else 0)
        if problems:
            raise UserError("\n".join(problems))
        count, height, width, channels = header.shape
        return cls(npz, count, (channels, height, width), labels, unchanged)

    @property
    def sha256(self) -> str:
        """Hash of the file."""
        return content_sha256(str(self.npz.path))

    def batches(self, size: int, start: int) -> Iterator[Tensor]:
        """(B, C, H, W) uint8. Raises UserError."""
        self.unchanged.check()
        for rows in self.npz.rows(IMAGES, size, start):
            yield torch.from_numpy(rows.transpose(0, 3, 1, 2).copy())
        self.unchanged.check()


def _check_images(path: Path, header: NpyHeader) -> None:
    """Raises UserError."""
    where = f"{path}: {IMAGES} is {header.dtype.name} of shape {header.shape}"
    if header.dtype != np.uint8 or len(header.shape) != 4:
        raise UserError(f"{where}; {_FORM}")
    count, height, width, channels = header.shape
    if channels not in CHANNELS and height in CHANNELS:
        raise UserError(f"{where}, channels first; {_FORM}: store images.transpose(0, 2, 3, 1)")
    if channels not in CHANNELS:
        raise UserError(f"{where}; {_FORM}")
    if header.is_fortran:
        raise UserError(f"{where} in Fortran order; store numpy.ascontiguousarray(images)")
    if not count:
        raise UserError(f"{where}: no images; a set needs at least one")
    if not 0 < min(height, width) <= max(height, width) <= MOST_SIDE:
        raise UserError(f"{where}: images of {width}x{height} pixels; a side has 1 to {MOST_SIDE:,}")
