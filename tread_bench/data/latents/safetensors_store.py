"""Latents in safetensors files: this project's layout, and LightningDiT's, whose names it uses.

A file has `latents` (N, C, H, W) or `moments` (N, 2C, H, W), float16 or float32, and `labels` (N,), int64. Where flips
come in pairs, `latents_flip` or `moments_flip` has the mirrored images. Labels stay in memory; latents stay on disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from tread_bench.core.errors import UserError
from tread_bench.core.stored.data_paths import named_where_unreadable
from tread_bench.core.stored.foreign import check_file
from tread_bench.data.latents.captions import CaptionsInTensors, CaptionStore
from tread_bench.data.latents.family import LatentsData
from tread_bench.data.latents.layouts import alike
from tread_bench.data.latents.store import Store, wrong_shape

_FLIPPED = "_flip"


class SafetensorsStore(Store):
    """Rows of tensors, mapped into memory file by file: rows that are never used are never read.

    Raises UserError naming file and tensor.
    """

    def __init__(self, choice: LatentsData, paths: Sequence[str]) -> None:
        self.key = "moments" if choice.has_moments else "latents"
        self._keys = [self.key, self.key + _FLIPPED] if choice.flips == "pair" else [self.key]
        super().__init__(choice, paths, [_checked(choice, path, self._keys) for path in paths])

    @cached_property
    def _maps(self) -> list[list[Any]]:
        """Of every file the mapped tensors of latents and, if there are, of mirrored ones; torch maps, NumPy copies."""
        files = [_open(path, "pt") for path in self.paths]
        return [[file.get_tensor(key) for key in self._keys] for file in files]

    def read(self, rows: NDArray[np.int64], is_mirrored: NDArray[np.bool_]) -> NDArray[np.float32]:
        """(B, C', H, W) float32; each file is read once, however many of its rows are wanted."""
        found = np.empty((len(rows), *self.choice.stored_shape), dtype=np.float32)
        for file, positions, places in self.by_file(rows):
            for number, is_wanted in enumerate((~is_mirrored, is_mirrored)[: len(self._keys)]):
                chosen = np.flatnonzero(is_wanted[positions])
                if len(chosen):
                    in_order = chosen[places[chosen].argsort(kind="stable")]
                    found[positions[in_order]] = self._rows(file, number, places[in_order])
        return found

    def _rows(self, file: int, number: int, rows: NDArray[np.int64]) -> NDArray[np.generic]:
        values: NDArray[np.generic] = self._maps[file][number].numpy()[rows]
        return values

    @cached_property
    def captioned(self) -> CaptionStore:
        """In the same files."""
        sizes = (self.ends - self.firsts).tolist()
        return CaptionsInTensors(self.choice, self.paths, [_open(path, "pt") for path in self.paths], sizes)

    def where(self, row: int) -> str:
        """File and row."""
        file, place = self.place_of(row)
        return f"{self.paths[file]}, {self.key[:-1]} {place}"


def _open(path: str, framework: str) -> Any:
    with named_where_unreadable(path):
        check_file(path)
        try:
            return safe_open(path, framework=framework)
        except SafetensorError as error:
            raise UserError(f"{path}: not a readable safetensors file: {error}") from None


def _checked(choice: LatentsData, path: str, keys: Sequence[str]) -> NDArray[np.int64]:
    """The labels of a file whose tensors have the right types and shapes. Raises UserError."""
    file = _open(path, "numpy")
    names = file.keys()
    if (ignored := keys[0] + _FLIPPED) not in keys and ignored in names:
        way_out = "data.flips: pair"
        if not choice.has_moments:
            way_out = f"data.layout: {' or '.join(alike(choice.about))}, or {way_out} for files of this project"
        raise UserError(f"{path}: {ignored} is not read with data.flips {choice.flips}; set {way_out}")
    counts = [_check_values(choice, file, path, key) for key in keys]
    if len(set(counts)) > 1:
        one, other = keys
        raise UserError(f"{path}: {counts[0]} {one} and {counts[1]} {other}; store one of each")
    return _labels(choice, file, path, counts[0])


def _check_values(choice: LatentsData, file: Any, path: str, key: str) -> int:
    """Number of samples in a tensor."""
    about = _tensor(file, path, key, _way_out(choice, key, file.keys()))
    found = tuple(about.get_shape())
    dtype = about.get_dtype()
    if dtype not in ("F16", "F32"):
        raise UserError(f"{path}: {key} are {dtype}; store float16 (F16) or float32 (F32)")
    if found[1:] != choice.stored_shape or len(found) != 4:
        raise wrong_shape(choice, f"{path}: {key}", found[1:], found[:1])
    if not found[0]:
        raise UserError(f"{path}: no latents; a split needs at least one in each file")
    return int(found[0])


def _way_out(choice: LatentsData, key: str, names: Sequence[str]) -> str:
    """What to do about a file without that tensor, where the suite may say something else."""
    if choice.fixed:
        return f", and layout {choice.layout} has it; set data.layout: {' or '.join(alike(choice.about))}"
    if key.endswith(_FLIPPED):
        return "; set data.flips: none, or store the mirrored latents too"
    other = {"moments": "latents", "latents": "moments"}[key]
    return "; set data.quantity to what it holds" if other in names else ""


def _tensor(file: Any, path: str, name: str, way_out: str = "") -> Any:
    """A slice of the file's tensor of that name, not read yet."""
    names = file.keys()
    if name not in names:
        raise UserError(f"{path}: no tensor {name!r}; it has {', '.join(names) or 'none'}{way_out}")
    return file.get_slice(name)


def _labels(choice: LatentsData, file: Any, path: str, count: int) -> NDArray[np.int64]:
    if not choice.num_classes:
        return np.zeros(count, dtype=np.int64)
    labels = _tensor(file, path, "labels")
    found = tuple(labels.get_shape())
    dtype = labels.get_dtype()
    if dtype != "I64" or found != (count,):
        raise UserError(f"{path}: labels are {dtype} of shape {found}; store int64 (I64) of shape ({count},)")
    return file.get_tensor("labels")
