"""Latents with features of captions in tar shards as WebDataset writes them (ZigMa).

Source: CompVis/zigma, train_acc.py: `KEY.img_feature256.npy` (C, H, W), a sample that is not scaled,
`KEY.caption_feature.npy` (N, M, E) and `KEY.caption.json`; `KEY.image.jpg` is not read.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from functools import cached_property
from typing import IO

import numpy as np
from numpy.typing import NDArray

from tread_bench.core.errors import UserError
from tread_bench.core.stored.data_paths import named_where_unreadable
from tread_bench.data.latents.arrays import FLOATS, npy_header
from tread_bench.data.latents.cache import Arrays
from tread_bench.data.latents.captions import CaptionStore, read_empty_text, text_shape
from tread_bench.data.latents.family import LatentsData, empty_text_file
from tread_bench.data.latents.store import Store, stored_array
from tread_bench.data.latents.tar_store import indexed, keys_as_bytes, members_of

_LATENT, _TEXT, _CAPTIONS = "img_feature256.npy", "caption_feature.npy", "caption.json"


class CaptionedTar(Store):
    """Samples by shard, place and size. Raises UserError naming shard and key."""

    def __init__(self, choice: LatentsData, paths: Sequence[str]) -> None:
        tables = [indexed(path, _index) for path in paths]
        columns = ("starts", "sizes", "counts")
        self._table = {name: np.concatenate([table[name] for table in tables]) for name in columns}
        self._keys = [table["keys"] for table in tables]
        super().__init__(choice, paths, [np.zeros(len(table["counts"]), dtype=np.int64) for table in tables])

    def read(self, rows: NDArray[np.int64], is_mirrored: NDArray[np.bool_]) -> NDArray[np.float32]:
        """(B, C, H, W) float32; each shard is opened once."""
        found = np.empty((len(rows), *self.choice.stored_shape), dtype=np.float32)
        for shard, positions, _ in self.by_file(rows):
            with named_where_unreadable(self.paths[shard]), open(self.paths[shard], "rb") as file:
                for position in positions.tolist():
                    row = int(rows[position])
                    content = self._content(file, row, _LATENT)
                    found[position] = stored_array(self.choice, content, self._name(row, _LATENT))
        return found

    def where(self, row: int) -> str:
        """Shard and key."""
        return self._name(row, _LATENT)

    def sha256(self) -> str:
        """Hash of the shards, and of the empty caption's features."""
        from tread_bench.data.source import files_sha256  # with torch

        return files_sha256([*self.paths, *filter(None, [empty_text_file(self.choice)])])

    def _name(self, row: int, extension: str) -> str:
        shard, place = self.place_of(row)
        key = self._keys[shard][place].tobytes().rstrip(b"\0")
        return f"{self.paths[shard]}: {key.decode(errors='replace')}.{extension}"

    def _content(self, file: IO[bytes], row: int, extension: str) -> bytes:
        number = _READ.index(extension)
        return os.pread(file.fileno(), int(self._table["sizes"][row, number]), int(self._table["starts"][row, number]))

    # ---- captions

    @property
    def captioned(self) -> CaptionStore:
        """In the same shards."""
        return self

    @property
    def counts(self) -> NDArray[np.int64]:
        return self._table["counts"]

    @cached_property
    def empty_text(self) -> NDArray[np.float32]:
        return read_empty_text(self.choice)

    def text(self, rows: NDArray[np.int64], chosen: NDArray[np.int64]) -> NDArray[np.float32]:
        """(B, M, E); of a sample's captions the chosen one alone is read."""
        shape = text_shape(self.choice)
        found = np.empty((len(rows), *shape), dtype=np.float32)
        for shard, positions, _ in self.by_file(rows):
            with named_where_unreadable(self.paths[shard]), open(self.paths[shard], "rb") as file:
                for position in positions.tolist():
                    found[position] = self._features(file, int(rows[position]), int(chosen[position]))
        return found

    def _features(self, file: IO[bytes], row: int, caption: int) -> NDArray[np.generic]:
        # The array that the header declares.
        where, number = self._name(row, _TEXT), _READ.index(_TEXT)
        start, size = int(self._table["starts"][row, number]), int(self._table["sizes"][row, number])
        file.seek(start)
        try:
            header = npy_header(file)
        except ValueError as error:
            raise UserError(f"{where}: {error}") from None
        shape = text_shape(self.choice)
        if header.dtype.name not in FLOATS or header.is_fortran or header.shape[1:] != shape:
            expected = f"(N, {shape[0]}, {shape[1]})"
            raise UserError(f"{where}: {header.dtype} of shape {header.shape}; expected floats of shape {expected}")
        if header.length + header.array_bytes != size:
            raise UserError(f"{where}: {size:,} bytes where its header declares others; copy it again")

        # The caption's part of it.
        bytes_each = header.array_bytes // header.shape[0]
        content = os.pread(file.fileno(), bytes_each, start + header.length + caption * bytes_each)
        return np.frombuffer(content, header.dtype).reshape(shape)

    def captions(self, rows: NDArray[np.int64], chosen: NDArray[np.int64]) -> list[str]:
        """The chosen captions; "" where the file is not a list of as many texts as there are features."""
        found = []
        for row, caption in zip(rows.tolist(), chosen.tolist(), strict=True):
            path = self.paths[self.place_of(row)[0]]
            with named_where_unreadable(path), open(path, "rb") as file:
                found.append(_caption(self._content(file, row, _CAPTIONS), caption))
        return found


_READ = (_LATENT, _TEXT, _CAPTIONS)


def _caption(content: bytes, number: int) -> str:
    try:
        found = json.loads(content)[number]
    except (ValueError, TypeError, KeyError, IndexError, RecursionError):
        return ""
    return found if isinstance(found, str) else ""


def _index(path: str) -> Arrays:
    """Places and sizes (N, 3) of latents, features and captions, and numbers of captions. Raises UserError."""
    # Members by key.
    found: dict[str, dict[str, tuple[int, int]]] = {}
    for key, extension, start, size in members_of(path, _READ):
        found.setdefault(key, {})[extension] = (start, size)
    samples = {key: members for key, members in found.items() if not members.keys().isdisjoint(_READ)}
    if not samples:
        raise UserError(f"{path}: no KEY.{_LATENT} in it; set data.layout: tread-wds for latents with labels")
    for key, members in samples.items():
        if missing := [extension for extension in (_LATENT, _TEXT) if extension not in members]:
            raise UserError(f"{path}: {key} has no .{missing[0]}; every sample has a latent and features of captions")

    # How many captions each has, by the headers of their features.
    counts = []
    with named_where_unreadable(path), open(path, "rb") as file:
        for key, members in samples.items():
            file.seek(members[_TEXT][0])
            try:
                shape = npy_header(file).shape
            except ValueError as error:
                raise UserError(f"{path}: {key}.{_TEXT}: {error}") from None
            if len(shape) != 3 or not shape[0]:
                raise UserError(f"{path}: {key}.{_TEXT} of shape {shape}; expected (captions, tokens, width)")
            counts.append(shape[0])
    places = np.array(
        [[members.get(extension, (0, 0)) for extension in _READ] for members in samples.values()], dtype=np.int64
    )
    return {
        "starts": places[:, :, 0].copy(),
        "sizes": places[:, :, 1].copy(),
        "counts": np.array(counts, dtype=np.int64),
        "keys": keys_as_bytes(samples),
    }
