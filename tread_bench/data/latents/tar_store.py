"""Latents in tar shards as WebDataset writes them (TREAD): `KEY.latent.npy` and `KEY.cls`.

Samples are drawn in any order, so a shard's headers are read once, and a sample by its place in the shard.
"""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from tread_bench.core.errors import UserError
from tread_bench.core.names import few
from tread_bench.core.stored.data_paths import is_data, named_where_unreadable
from tread_bench.core.stored.foreign import open_file
from tread_bench.data.latents.arrays import LONGEST_NUMBER, ascii_number
from tread_bench.data.latents.cache import Arrays, remembered
from tread_bench.data.latents.options import LatentsData
from tread_bench.data.latents.store import Unit, stored_array

_LATENT, _CLASS = ".latent.npy", ".cls"
_BLOCK = 512
_SHOWN = 3


class TarShard(Unit):
    """Samples by place and size. Raises UserError naming shard and key."""

    def __init__(self, choice: LatentsData, path: str) -> None:
        self._index = remembered(path, [], lambda: _indexed(path))
        super().__init__(choice, path, self._index["labels"])

    def read(self, rows: NDArray[np.int64], is_mirrored: NDArray[np.bool_]) -> Iterator[NDArray[np.generic]]:
        """(C, H, W) of each."""
        with named_where_unreadable(self.path), open_file(self.path) as file:
            for row in rows.tolist():
                start, size = self._index["places"][row].tolist()
                yield stored_array(self.choice, os.pread(file.fileno(), size, start), self.where(row))

    def where(self, row: int) -> str:
        """Shard and key."""
        key = self._index["keys"][row].tobytes().rstrip(b"\0").decode(errors="replace")
        return f"{self.path}: {key}{_LATENT}"


def _indexed(path: str) -> Arrays:
    """Place and size of every latent, (N, 2), every label, and the keys as bytes, (N, longest). Raises UserError."""
    # Members by key, which may contain dots.
    latents: dict[str, tuple[int, int]] = {}
    classes: dict[str, int] = {}
    try:
        with named_where_unreadable(path), open_file(path) as file, tarfile.open(fileobj=file, mode="r:") as shard:
            for member in filter(lambda member: member.isreg() and is_data(member.name), shard):
                name, start = member.name, member.offset_data
                for suffix, found in ((_LATENT, latents), (_CLASS, classes)):
                    if name.endswith(suffix) and name.removesuffix(suffix) in found:
                        raise UserError(f"{path}: {name} is there twice")
                if name.endswith(_LATENT):
                    latents[name.removesuffix(_LATENT)] = (start, member.size)
                elif name.endswith(_CLASS):
                    label = os.pread(file.fileno(), min(member.size, LONGEST_NUMBER + 1), start)
                    classes[name.removesuffix(_CLASS)] = ascii_number(label, f"{path}: {name}")
            if os.fstat(file.fileno()).st_size < shard.offset + _BLOCK:  # no zeros at its end
                raise tarfile.ReadError("it was cut, copy it again")
    except tarfile.TarError as error:
        raise UserError(f"{path}: not a readable, uncompressed tar shard ({error})") from None

    # Whole samples.
    if latents.keys() != classes.keys() or not latents:
        wrong = few(sorted(latents.keys() ^ classes.keys()), _SHOWN) or "no file is either"
        raise UserError(f"{path}: a sample is KEY{_LATENT} and KEY{_CLASS}; only one of them: {wrong}")
    keys = np.array([key.encode(errors="replace") for key in latents])
    return {
        "places": np.array(list(latents.values()), dtype=np.int64),
        "labels": np.array([classes[key] for key in latents], dtype=np.int64),
        "keys": keys.view(np.uint8).reshape(len(keys), -1),
    }
