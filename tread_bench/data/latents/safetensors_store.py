"""Latents in safetensors files: this project's layout, and LightningDiT's, whose names it uses.

A file has `latents` (N, C, H, W) or `moments` (N, 2C, H, W), float16 or float32, and `labels` (N,), int64. Where flips
come in pairs, `latents_flip` or `moments_flip` has the mirrored images. Labels stay in memory; latents stay on disk.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from tread_bench.core.errors import UserError
from tread_bench.data.latents.captions import CaptionTensors
from tread_bench.data.latents.layouts import alike
from tread_bench.data.latents.options import LatentsData
from tread_bench.data.latents.store import Unit, wrong_shape
from tread_bench.data.latents.tensors import FLOATS, INTEGERS, TensorFile


class SafetensorsFile(CaptionTensors, Unit):
    """Rows of tensors. Raises UserError naming file and tensor."""

    def __init__(self, choice: LatentsData, path: str) -> None:
        # Latents, and mirrored ones beside them.
        self.file = file = TensorFile(path)
        self.key = "moments" if choice.has_moments else "latents"
        flipped, others = f"{self.key}_flip", " or ".join(alike(choice.about))
        self.keys = [self.key, flipped] if choice.flips == "pair" else [self.key]
        if flipped in file.names and flipped not in self.keys:
            rule = f"is not read with data.flips {choice.flips}; set data.layout: {others}, or data.flips: pair"
            raise UserError(f"{path}: {flipped} {rule}")
        way_out = f"; set data.layout: {others}" if choice.fixed else "; set data.quantity and data.flips to its own"
        shapes = [file.shape(key, FLOATS, way_out) for key in self.keys]
        for key, shape in zip(self.keys, shapes, strict=True):
            if shape[1:] != choice.stored_shape:
                raise wrong_shape(choice, f"{path}: {key}", shape)
        count = shapes[0][0]
        if not count or shapes[-1][0] != count:
            sizes = " and ".join(f"{shape[0]} {key}" for key, shape in zip(self.keys, shapes, strict=True))
            raise UserError(f"{path}: {sizes}; a file has at least one, and one mirrored latent of each")

        # Labels.
        labels = np.zeros(count, dtype=np.int64)
        if choice.num_classes:
            if file.shape("labels", INTEGERS) != (count,):
                raise UserError(f"{path}: labels of shape {file.shape('labels', INTEGERS)}; store {count} of them")
            labels = file.tensor("labels").numpy()
        super().__init__(choice, path, labels)

    def read(self, rows: NDArray[np.int64], is_mirrored: NDArray[np.bool_]) -> Iterator[NDArray[np.generic]]:
        """(C', H, W) of each."""
        tensors = [self.file.tensor(key).numpy() for key in self.keys]
        for row, number in zip(rows.tolist(), is_mirrored.tolist(), strict=True):
            yield tensors[number][row]

    def where(self, row: int) -> str:
        """File and row."""
        return f"{self.path}, {self.key[:-1]} {row}"
