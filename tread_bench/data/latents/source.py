"""Latents of a frozen autoencoder in local safetensors files, mapped into memory and read as they are needed.

A file has `latents` (N, C, H, W), float16 or float32, as the encoder returns them, and `labels` (N,), int64. Labels
stay in memory; latents stay on disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from torch import Tensor

from tread_bench.core.errors import UserError
from tread_bench.data.check import message_of
from tread_bench.data.latents.family import LatentsData
from tread_bench.data.parquet.source import ParquetImages
from tread_bench.data.source import DataSource, files_sha256


def open_latents(choice: LatentsData, folder: Path | None = None) -> DataSource:
    """Both splits, and the real images if they are given. Raises UserError naming file and rule."""
    real_images = _real_images(choice) if choice.images else None
    return DataSource(
        LatentSet(choice, choice.train), LatentSet(choice, choice.held_out), choice.num_classes, real_images
    )


def _real_images(choice: LatentsData) -> ParquetImages:
    return ParquetImages(choice.images, choice.decoded_size, choice.image_column)


class LatentSet:
    """Latents of one split.

    Raises:
        UserError: naming file and rule, where a file is not in the form above or a label out of range.
    """

    def __init__(self, choice: LatentsData, paths: tuple[str, ...]) -> None:
        self.choice = choice
        self.paths = paths
        self.shape = (choice.channels, choice.image_size, choice.image_size)

        # Latents are mapped into memory, file by file.
        files = [_open(path) for path in paths]
        self._latents = [_latents(file, path, self.shape) for file, path in zip(files, paths, strict=True)]
        counts = [len(latents) for latents in self._latents]
        self._ends = np.cumsum(counts)
        if not len(self):
            raise UserError(f"{', '.join(paths)}: no latents; a split needs at least one")

        # Labels are read.
        labels = []
        for file, path, count in zip(files, paths, counts, strict=True):
            labels.append(_labels(choice, file, path, count))
        self._classes = np.concatenate(labels)

    def __len__(self) -> int:
        return int(self._ends[-1])

    def images(self, index: NDArray[np.int64]) -> Tensor:
        """(B, C, H, W) float32, times the scale. Raises UserError where one contains NaN or infinite values."""
        found = torch.empty(len(index), *self.shape)
        numbers = np.searchsorted(self._ends, index, side="right")
        for number in np.unique(numbers):
            places = np.flatnonzero(numbers == number)
            rows = index[places] - (self._ends[number - 1] if number else 0)
            in_order = rows.argsort(kind="stable")
            found[torch.from_numpy(places[in_order])] = self._read(int(number), rows[in_order])
        return found.mul_(self.choice.scale)

    def _read(self, number: int, rows: NDArray[np.int64]) -> Tensor:
        """Rows of one file, (B, C, H, W) float32."""
        latents = self._latents[number][torch.from_numpy(rows)].float()
        _check_finite(latents, self.paths[number], rows)
        return latents

    def labels(self, index: NDArray[np.int64]) -> Tensor:
        """(B,) int64; all 0 where there are no classes."""
        return torch.from_numpy(self._classes[index])

    @cached_property
    def sha256(self) -> str:
        """Hash of the files, in their order."""
        return files_sha256(self.paths)


def file_problems(choice: LatentsData, generates: bool) -> Iterator[str]:
    """A message for each file that cannot be used; real images are read only where samples are generated."""
    for path in (*choice.train, *choice.held_out):
        yield from message_of(check_ends, choice, path)
    if generates and choice.images:
        yield from _real_images(choice).problems()


def check_ends(choice: LatentsData, path: str) -> None:
    """Shape and type of a file's latents, all its labels, and its first and last latent. Raises UserError."""
    file = _open(path)
    latents = _latents(file, path, (choice.channels, choice.image_size, choice.image_size))
    _labels(choice, file, path, len(latents))
    for row in sorted({0, len(latents) - 1}) if len(latents) else ():
        _check_finite(latents[row : row + 1], path, np.array([row]))


def _check_finite(latents: Tensor, path: str, rows: NDArray[np.int64]) -> None:
    """Raises UserError where one of these rows of a file contains NaN or infinite values."""
    is_finite = torch.isfinite(latents).flatten(1).all(1).numpy()
    if not is_finite.all():
        row = rows[is_finite.argmin()]
        raise UserError(f"{path}, latent {row}: contains NaN or infinite values; encode it again")


def _open(path: str) -> Any:
    try:
        return safe_open(path, framework="pt")
    except FileNotFoundError:
        raise UserError(f"{path}: no such file (looked in {Path.cwd()})") from None
    except (OSError, SafetensorError) as error:
        raise UserError(f"{path}: not a readable safetensors file: {error}") from None


def _tensor(file: Any, path: str, name: str) -> Any:
    """A slice of the file's tensor of that name, not read yet."""
    names = file.keys()
    if name not in names:
        raise UserError(f"{path}: no tensor {name!r}; it has {', '.join(names) or 'none'}")
    return file.get_slice(name)


def _latents(file: Any, path: str, shape: tuple[int, ...]) -> Tensor:
    """(N, C, H, W), mapped: rows that are never used are never read."""
    about = _tensor(file, path, "latents")
    found = tuple(about.get_shape())
    dtype = about.get_dtype()
    if dtype not in ("F16", "F32"):
        raise UserError(f"{path}: latents are {dtype}; store float16 (F16) or float32 (F32)")
    if found[1:] != shape or len(found) != 4:
        raise UserError(
            f"{path}: latents of shape {found} where data.channels and data.image_size request "
            f"(N, {', '.join(map(str, shape))})"
        )
    latents: Tensor = file.get_tensor("latents")
    return latents


def _labels(choice: LatentsData, file: Any, path: str, count: int) -> NDArray[np.int64]:
    if not choice.num_classes:
        return np.zeros(count, dtype=np.int64)
    labels = _tensor(file, path, "labels")
    found = tuple(labels.get_shape())
    dtype = labels.get_dtype()
    if dtype != "I64" or found != (count,):
        raise UserError(f"{path}: labels are {dtype} of shape {found}; store int64 (I64) of shape ({count},)")
    classes: NDArray[np.int64] = file.get_tensor("labels").numpy()
    wrong = np.flatnonzero((classes < 0) | (classes >= choice.num_classes))
    if len(wrong):
        first = int(wrong[0])
        raise UserError(
            f"{path}, label {first}: {classes[first]} where data.num_classes allows 0 to {choice.num_classes - 1}"
        )
    return classes
