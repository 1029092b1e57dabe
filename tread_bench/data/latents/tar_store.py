"""Latents in tar shards as WebDataset writes them (TREAD): `KEY.latent.npy` and `KEY.cls`.

Samples are drawn in any order, so a shard's headers are read once, and a sample by its place in the shard.
"""

from __future__ import annotations

import logging
import os
import tarfile
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from tread_bench.core.errors import UserError
from tread_bench.core.names import few
from tread_bench.core.stored.data_paths import is_data, named_where_unreadable
from tread_bench.core.stored.foreign import open_file
from tread_bench.data.latents.arrays import LONGEST_NUMBER, ascii_number
from tread_bench.data.latents.cache import Arrays, remembered
from tread_bench.data.latents.family import LatentsData
from tread_bench.data.latents.layouts import CONVERTED
from tread_bench.data.latents.store import Store, stored_array

_LATENT, _CLASS = "latent.npy", "cls"
_BLOCK = 512
_SHOWN = 3

log = logging.getLogger(__name__)


class TarStore(Store):
    """Samples by shard, place and size. Raises UserError naming shard and key."""

    def __init__(self, choice: LatentsData, paths: Sequence[str]) -> None:
        tables = [_indexed(path) for path in paths]
        self._starts = np.concatenate([table["starts"] for table in tables])
        self._sizes = np.concatenate([table["sizes"] for table in tables])
        self._keys = [table["keys"] for table in tables]  # (N, bytes) of each shard
        super().__init__(choice, paths, [table["labels"] for table in tables])

    def read(self, rows: NDArray[np.int64], is_mirrored: NDArray[np.bool_]) -> NDArray[np.float32]:
        """(B, C, H, W) float32; each shard is opened once."""
        found = np.empty((len(rows), *self.choice.stored_shape), dtype=np.float32)
        for shard, positions, _ in self.by_file(rows):
            path = self.paths[shard]
            with named_where_unreadable(path), open_file(path) as file:
                for position in positions.tolist():
                    found[position] = self._values(file.fileno(), int(rows[position]))
        return found

    def _values(self, handle: int, row: int) -> NDArray[np.generic]:
        content = os.pread(handle, int(self._sizes[row]), int(self._starts[row]))
        return stored_array(self.choice, content, self.where(row))

    def where(self, row: int) -> str:
        """Shard and key."""
        shard, place = self.place_of(row)
        key = self._keys[shard][place].tobytes().rstrip(b"\0")
        return f"{self.paths[shard]}: {key.decode(errors='replace')}.{_LATENT}"


def _indexed(path: str) -> Arrays:
    """What `_index` finds in a shard, from the cache where it was found before. Raises UserError."""
    return remembered(path, [], lambda: _index(path))


def _index(path: str) -> Arrays:
    """Place and size of every latent, and every label, in the order of the shard. Raises UserError."""
    # Members by key.
    latents: dict[str, tuple[int, int]] = {}
    classes: dict[str, int] = {}
    others: list[str] = []
    with named_where_unreadable(path), open_file(path) as content:
        for key, extension, start, size in _members_of(path):
            if extension == _LATENT:
                latents[key] = (start, size)
            elif extension == _CLASS:
                content.seek(start)
                label = content.read(min(size, LONGEST_NUMBER + 1))
                classes[key] = ascii_number(label, f"{path}: {key}.{extension}")
            else:
                others.append(key)
    _check_others(path, others, len(latents))
    for key in latents.keys() ^ classes.keys():
        missing = _CLASS if key in latents else _LATENT
        raise UserError(f"{path}: {key} has no .{missing}; every sample has a latent and a class")

    # As arrays, which are kept; keys as bytes, (N, longest).
    keys = np.array([key.encode(errors="replace") for key in latents])
    places = np.array(list(latents.values()), dtype=np.int64)
    labels = np.array([classes[key] for key in latents], dtype=np.int64)
    return {
        "starts": places[:, 0].copy(),
        "sizes": places[:, 1].copy(),
        "labels": labels,
        "keys": keys.view(np.uint8).reshape(len(keys), -1),
    }


def _check_others(path: str, names: list[str], latents: int) -> None:
    """Say which arrays are not read. Raises UserError where there are pickles of MaskDiT, or no latents."""
    if pickles := [name for name in names if name.endswith(".latent")]:
        raise UserError(
            f"{path}: {pickles[0]} is a pickle, as MaskDiT's lmdb2wds writes it, which can run any code when it is "
            f"opened; where you trust it, {CONVERTED}"
        )
    sample = f"a sample is KEY.{_LATENT} and KEY.{_CLASS}"
    if not latents:
        raise UserError(f"{path}: {sample}, and it has {few(names, _SHOWN) or 'no files'}; name shards that have some")
    if arrays := [name for name in names if name.endswith(".npy")]:
        log.warning("%s: %d arrays are not read (%s): %s", path, len(arrays), few(arrays, _SHOWN), sample)


def _members_of(path: str) -> Iterator[tuple[str, str, int, int]]:
    """Key, extension, place and size of every file in a shard; of files that are not read, their names and "".

    Raises:
        UserError: it is not a shard, or was cut, or a latent or label is there twice.
    """
    end = 0
    seen: set[tuple[str, str]] = set()
    try:
        with named_where_unreadable(path), open_file(path) as file, tarfile.open(fileobj=file, mode="r:") as shard:
            size = os.fstat(file.fileno()).st_size
            for member in shard:
                end = max(end, member.offset_data + -(-member.size // _BLOCK) * _BLOCK)
                if not member.isreg() or not is_data(member.name):
                    continue
                key, extension = _key(member.name)
                if member.offset_data + member.size > size:
                    raise UserError(f"{path}: {member.name} ends after the file does; the shard was cut, copy it again")
                if extension and (key, extension) in seen:
                    raise UserError(f"{path}: {member.name} is there twice")
                seen.add((key, extension))
                yield key, extension, member.offset_data, member.size
    except tarfile.TarError as error:
        raise UserError(f"{path}: not a readable, uncompressed tar shard ({error})") from None

    # A shard that was cut between two members lacks the zeros at its end.
    if size < end + _BLOCK:
        raise UserError(f"{path}: the shard has no end; it was cut, copy it again")


def _key(name: str) -> tuple[str, str]:
    """A file's key, which may contain dots, and its extension; "" if it is not read."""
    for extension in (_LATENT, _CLASS):
        if name.endswith(f".{extension}"):
            return name.removesuffix(f".{extension}"), extension
    return name, ""
