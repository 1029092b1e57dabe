"""Latents in safetensors files: this project's layout, and LightningDiT's, whose names it uses.

A file has `latents` (N, C, H, W) or `moments` (N, 2C, H, W), float16 or float32, and `labels` (N,), int64. Where flips
come in pairs, `latents_flip` or `moments_flip` has the mirrored images. Labels stay in memory; latents stay on disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from tread_bench.core.errors import UserError
from tread_bench.core.stored.data_paths import named_where_unreadable
from tread_bench.core.stored.foreign import check_file
from tread_bench.data.latents.layouts import alike
from tread_bench.data.latents.options import LatentsData
from tread_bench.data.latents.store import Unit, text_shape, wrong_shape

_FLOATS = {"F16": "float16", "F32": "float32"}
_INTEGERS = {"I64": "int64"}
_BYTES = {"U8": "uint8"}

# Tensors in this project's files.
TEXT = "text"  # (K, M, E) features of the captions, sample by sample
COUNTS = "text_counts"  # (N,) captions of each sample
EMPTY_TEXT = "empty_text"  # (M, E)
CAPTIONS = "captions"  # UTF-8 of the captions, one behind the other
CAPTION_BYTES = "caption_bytes"  # (K,) length of each


class TensorFile:
    """A file of named tensors. Raises UserError naming file, tensor and rule."""

    def __init__(self, path: str) -> None:
        self.path = path
        with named_where_unreadable(path):
            check_file(path)
            try:
                self._file = safe_open(path, framework="pt")
            except SafetensorError as error:
                raise UserError(f"{path}: not a readable safetensors file: {error}") from None
        self.names = self._file.keys()
        self.tensor = cache(self._file.get_tensor)  # by name; of torch, mapped into memory

    def shape(self, name: str, types: dict[str, str], way_out: str = "") -> tuple[int, ...]:
        """Return the shape of a tensor, of which nothing else is read.

        Args:
            types: that it may have, by their codes in the file.
            way_out: what to do where there is no such tensor.
        """
        if name not in self.names:
            has = ", ".join(self.names) or "none"
            raise UserError(f"{self.path}: no tensor {name!r}; it has {has}{way_out}")
        about = self._file.get_slice(name)
        if (code := about.get_dtype()) not in types:
            rule = " or ".join(f"{word} ({known})" for known, word in types.items())
            raise UserError(f"{self.path}: {name} are {code}; store {rule}")
        return tuple(about.get_shape())


class SafetensorsFile(Unit):
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
        way_out = f"; set data.layout: {others}" if choice.about.fixed else "; set data.quantity and data.flips"
        shapes = [file.shape(key, _FLOATS, way_out) for key in self.keys]
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
            if file.shape("labels", _INTEGERS) != (count,):
                raise UserError(f"{path}: labels of shape {file.shape('labels', _INTEGERS)}; store {count} of them")
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

    # ---- captions, where the options say that they are stored

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """(N,) captions of each sample, of a file whose tensors fit each other."""
        file = self.file
        way_out = "; captions need it: set data.captions: null without"
        file.shape(COUNTS, _INTEGERS, way_out)
        file.shape(CAPTION_BYTES, _INTEGERS, way_out)
        counts, lengths = (file.tensor(name).numpy() for name in (COUNTS, CAPTION_BYTES))
        total = int(counts.sum())
        expected = {
            COUNTS: (_INTEGERS, self.labels.shape),
            CAPTION_BYTES: (_INTEGERS, (total,)),
            TEXT: (_FLOATS, (total, *text_shape(self.choice))),
            EMPTY_TEXT: (_FLOATS, text_shape(self.choice)),
            CAPTIONS: (_BYTES, (int(lengths.sum()),)),
        }
        for name, (types, shape) in expected.items():
            if (found := file.shape(name, types, way_out)) != shape:
                raise UserError(f"{file.path}: {name} of shape {found}; expected {shape}")
        if (counts < 1).any() or (lengths < 0).any():
            raise UserError(f"{file.path}: {COUNTS}: every sample needs a caption")
        return np.asarray(counts)

    @property
    def empty_text(self) -> NDArray[np.float32]:
        """(M, E)."""
        found: NDArray[np.float32] = self.file.tensor(EMPTY_TEXT).float().numpy()
        return found

    def text(self, row: int, caption: int) -> NDArray[np.generic]:
        """(M, E) features of one of a sample's captions."""
        found: NDArray[np.generic] = self.file.tensor(TEXT)[self._firsts[row] + caption].numpy()
        return found

    def caption(self, row: int, caption: int) -> str:
        """Return that caption as it was encoded."""
        sizes, place = self.file.tensor(CAPTION_BYTES), int(self._firsts[row]) + caption
        start = int(sizes[:place].sum())
        content = self.file.tensor(CAPTIONS)[start : start + int(sizes[place])]
        return content.numpy().tobytes().decode("utf-8", "surrogatepass")

    @cached_property
    def _firsts(self) -> NDArray[np.int64]:
        """Of each sample's captions."""
        return np.cumsum(self.counts) - self.counts
