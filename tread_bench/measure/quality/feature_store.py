"""Features of sets of images on disk: computed once, resumed after a kill, read by memory map.

A set's folder holds a .npy of each output, (n, d) float32, and `shards.json` with the hashes of their shards. A shard
is listed after it has been flushed to disk, so a process that dies loses only the one that it was working on. What is
found is hashed again, and a shard that is damaged is computed again. Sums over all features stand beside them.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
import scipy
import torch
from numpy.lib.format import open_memmap
from numpy.typing import NDArray
from torch import Tensor

from tread_bench.core.errors import UserError
from tread_bench.core.stored.cache import cache_folder, one_at_a_time
from tread_bench.core.stored.conditions import blas_kernels
from tread_bench.core.stored.files import StoreError, read_json, replacing, write_json
from tread_bench.core.stored.outputs import open_plain
from tread_bench.measure.quality.features import Extractor, Features, images_to_features, machine_of
from tread_bench.measure.quality.statistics import ROWS, FeatureStatistics, features_to_statistics
from tread_bench.measure.quality.statistics_file import Statistics, load_statistics, save_statistics
from tread_bench.measure.sets.samples import ImageStream

SHARD_IMAGES = 1000  # at least, in whole batches: a minute or two of Inception on one CPU core
_INDEX = "shards.json"
_STATISTICS = "statistics.safetensors"
_SUMS = 1  # version of how they are added up

Hashes = dict[str, str]  # of a shard, by output


class FeatureStore:
    """Features of sets of images, each set's and network's in a folder of its own.

    Args:
        folder: default: `features` in the cache folder.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or cache_folder("features")

    def features(
        self,
        images: ImageStream,
        extractor: Extractor,
        *,
        spatial: bool = False,
        batch: int | None = None,
        progress: Callable[[int], None] = lambda done: None,
    ) -> Features:
        """Features of all images, (n, d), (n, classes) and (n, s) float32, mapped from files; only what is not there
        yet is computed.

        Args:
            spatial: also spatial features.
            batch: images at a time; None: as many as pay on the extractor's device.
            progress: called with the number of images that are done, first with that of those found.

        Raises:
            UserError: they cannot be stored; what has been stored is kept.
            FloatingPointError: features that are not finite.
        """
        batch = batch or extractor.batch
        key = _key(images, extractor, batch)
        with one_at_a_time(f"features-{key}"):
            return _Entry(self.folder / key, images, extractor, batch, spatial).completed(progress)

    def statistics(
        self,
        images: ImageStream,
        extractor: Extractor,
        *,
        spatial: bool = False,
        batch: int | None = None,
        progress: Callable[[int], None] = lambda done: None,
        features: Features | None = None,
    ) -> Statistics:
        """Sums over the features of all images, on the extractor's device, without these features.

        They are stored, too: where they are found, no feature is read.

        Args:
            features: of these images, from `features`, where they have been read already.

        The other arguments and the errors are those of `features`.
        """
        # What is there.
        batch = batch or extractor.batch
        key = _key(images, extractor, batch)
        path = self.folder / key / _STATISTICS
        device = extractor.device
        of_sums = _key_of_sums(key, device)
        found = load_statistics(path, of_sums)
        if found is not None and (found.spatial is not None or not spatial):
            progress(images.count)
            return found.to(device)

        # What is not.
        if features is None:
            features = self.features(images, extractor, spatial=spatial, batch=batch, progress=progress)
        of_spatial = None if features.spatial is None else _sums(features.spatial, device)
        found = Statistics(_sums(features.pooled, device), of_spatial)
        with one_at_a_time(f"features-{key}"):
            there = load_statistics(path, of_sums)  # by another process, meanwhile
            if there is None or there.spatial is None:
                save_statistics(found, path, of_sums)
        return found

    def bytes_used(self) -> int:
        """Size of all that is stored, on disk."""
        sizes = 0
        for path in self.folder.rglob("*"):
            with suppress(OSError):
                sizes += path.lstat().st_blocks * 512  # files have their whole length from the start
        return sizes


def _sums(features: Tensor, device: torch.device) -> FeatureStatistics:
    """Of features (n, d) in a file, which go to the device in parts."""
    return features_to_statistics(part.to(device) for part in features.split(ROWS))


def _key(images: ImageStream, extractor: Extractor, batch: int) -> str:
    """Contents, network, and what changes last bits: figures are the same whether features are found or computed."""
    preprocessing = f"uint8, grey repeated, float32, batch {batch}"
    content = (images.sha256, images.count, extractor.sha256, preprocessing, machine_of(extractor.device))
    return hashlib.sha256(repr(content).encode()).hexdigest()


def _key_of_sums(key: str, device: torch.device) -> str:
    """Of the features, and what changes last bits of sums over them."""
    blas = (scipy.__version__, blas_kernels()) if device.type == "cpu" else ()
    return hashlib.sha256(repr((key, _SUMS, blas)).encode()).hexdigest()


class _Entry:
    """Features of one set by one network."""

    def __init__(self, place: Path, images: ImageStream, extractor: Extractor, batch: int, spatial: bool) -> None:
        self.place = place
        self.images = images
        self.extractor = extractor
        self.batch = batch
        self.spatial = spatial
        self.batches_of_shard = -(-SHARD_IMAGES // batch)
        self.shard = self.batches_of_shard * batch  # images
        self.shards = -(-images.count // self.shard)

    def completed(self, progress: Callable[[int], None]) -> Features:
        """Compute the shards that are missing or damaged, and map them all."""
        # What is there.
        hashes = self._found()
        done = sum(map(self._rows, hashes))
        progress(done)

        # What is not, one shard after the other.
        stream: Iterator[Tensor] = iter(())
        following = None
        for number in [number for number in range(self.shards) if number not in hashes]:
            if number != following:
                stream = iter(self.images.batches(self.batch, number * self.shard))
            features = images_to_features(
                islice(stream, self.batches_of_shard),
                self.extractor,
                count=self._rows(number),
                spatial=self.spatial,
                progress=lambda of_shard, before=done: progress(before + of_shard),  # type: ignore[misc]
            )
            hashes[number] = self._write(number, features)
            with _storing(self.place):
                write_json(self.place / _INDEX, {str(shard): hashes[shard] for shard in sorted(hashes)})
            done += self._rows(number)
            following = number + 1

        # All of it.
        mapped = {name: torch.from_numpy(self._opened(name, "c")) for name in self._requested(hashes[0])}
        return Features(**mapped)

    def _rows(self, number: int) -> int:
        """Images in a shard."""
        return min(self.shard, self.images.count - number * self.shard)

    def _requested(self, outputs: Container[str]) -> list[str]:
        """Those of the outputs that are there which are to be read."""
        names = (name for name in Features._fields if name != "spatial" or self.spatial)
        return [name for name in names if name in outputs]

    def _found(self) -> dict[int, Hashes]:
        """Hashes of the shards that are listed with all outputs that are requested, and hold what was written."""
        try:
            listed = read_json(self.place / _INDEX) or {}
            return {
                number: hashes
                for number in range(self.shards)
                if (hashes := listed.get(str(number))) and self._is_whole(number, hashes)
            }
        except (StoreError, AttributeError, TypeError):  # it is damaged
            return {}

    def _is_whole(self, number: int, hashes: Hashes) -> bool:
        if not {"pooled", *(["spatial"] if self.spatial else [])} <= hashes.keys():
            return False
        for name in self._requested(hashes):
            try:
                rows = self._opened(name, "r")[number * self.shard : (number + 1) * self.shard]
            except (OSError, ValueError):
                return False
            if hashlib.sha256(rows.data).hexdigest() != hashes[name]:
                return False
        return True

    def _write(self, number: int, features: Features) -> Hashes:
        """Write a shard to disk; its hashes."""
        hashes = {}
        for name, output in features._asdict().items():
            if output is None:
                continue
            if not torch.isfinite(output).all():
                raise FloatingPointError("features contain NaN or infinite values, so no metric can be computed")
            rows = output.contiguous().numpy()
            with _storing(self.place):
                self._write_rows(name, number * self.shard, rows)
            hashes[name] = hashlib.sha256(rows.data).hexdigest()
        return hashes

    def _write_rows(self, name: str, first: int, rows: NDArray[np.float32]) -> None:
        """Write with a file's functions, not through a map: a full disk is then an error, not a signal."""
        path = self._path(name)
        try:
            offset = self._opened(name, "r").offset
        except (OSError, ValueError):  # it is not there, or is of something else
            self.place.mkdir(parents=True, exist_ok=True)
            _check_space(self.place, self.images.count * rows.shape[1] * rows.itemsize)
            with replacing(path) as temporary:
                open_memmap(temporary, "w+", np.float32, (self.images.count, rows.shape[1]))
            offset = self._opened(name, "r").offset
        with open_plain(path, "r+b") as file:
            file.seek(offset + first * rows.itemsize * rows.shape[1])
            file.write(rows.data)
            file.flush()
            os.fsync(file.fileno())

    def _opened(self, name: str, mode: Literal["r", "c"]) -> np.memmap[Any, np.dtype[np.float32]]:
        """An output of all images (n, d), mapped. Raises OSError or ValueError where there is no such file."""
        mapped = open_memmap(self._path(name), mode)
        if mapped.dtype != np.float32 or len(mapped) != self.images.count:
            raise ValueError(f"{self._path(name)} does not hold these features")
        return mapped

    def _path(self, name: str) -> Path:
        return self.place / f"{name}.npy"


def _check_space(folder: Path, needed: int) -> None:
    """Raises OSError."""
    if shutil.disk_usage(folder).free < needed:
        raise OSError(errno.ENOSPC, f"{needed / 2**30:.2f} GiB are needed")


@contextmanager
def _storing(folder: Path) -> Iterator[None]:
    """Say where there is no room, or no right, for features."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"features cannot be stored in {folder} ({error.strerror}): make room there, or name another cache folder "
            "by XDG_CACHE_HOME; the same command then resumes"
        ) from None
