"""Latents of a frozen autoencoder on disk, read as they are needed; where moments are stored, samples are drawn.

A network learns x = (z - shift) * scale, with z = mean + std * noise where the posterior's moments are stored. A
training step draws noise and flips by its sample's number in the training; validation has noise of its own, fixed by
the sample's place in the data.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tread_bench.core.errors import UserError
from tread_bench.core.numbers import draws
from tread_bench.data.captions.texts import drawn_captions
from tread_bench.data.check import absent_classes
from tread_bench.data.image_folder.listing import listed
from tread_bench.data.image_folder.source import FolderImages
from tread_bench.data.images.decode import Wanted, decode
from tread_bench.data.images.encoded import OnDemand
from tread_bench.data.images.table import TableImages
from tread_bench.data.latents.manifest import LOGVAR_RANGE, LatentManifest, manifests_of, read_manifest
from tread_bench.data.latents.options import LatentsData, facts_of, holds_image_files, units
from tread_bench.data.latents.store import Store
from tread_bench.data.latents.trees import open_tree
from tread_bench.data.parquet.family import ParquetData
from tread_bench.data.scaling import Scaling
from tread_bench.data.source import DataSource, flip, from_uint8

_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp")  # of images beside latents
_MOST_BYTES = 2**26  # of such a file
_NUMBERED = re.compile(r"img(?:-mean-std-|-)?(\d+)")
_LOOKED_AT = 512  # samples whose spread is checked
_PLAUSIBLE_STD = (0.3, 2.0)  # of scaled latents


def fixed_noise(index: NDArray[np.int64], shape: tuple[int, int, int]) -> NDArray[np.float32]:
    """Posterior noise by the samples' places in the data, (B, *shape)."""
    stream = "noise of a stored posterior"
    return np.concatenate([draws.normal(0, stream, int(item), 1, shape, np.float32) for item in index])


def open_latents(choice: LatentsData) -> DataSource:
    """Both splits, and the real images if they are given. Raises UserError naming file and rule."""
    kind = LatentSet if choice.captions is None else CaptionedLatents
    train_kind = kind if choice.train_images is None else PicturedLatents  # whose layouts store no captions
    real_images = partial(_real_images, choice) if choice.images else None
    return DataSource(train_kind(choice, choice.train), kind(choice, choice.held_out), choice.num_classes, real_images)


def _real_images(choice: LatentsData) -> OnDemand:
    """Images that decoded samples are compared with. Raises UserError."""
    wanted = Wanted(choice.decoded_size, 3, enlarge=False, key="data.decoded_size", way_out="take it out")
    are_folders = {holds_image_files(entry) for entry in choice.images}
    if len(are_folders) > 1:
        raise UserError("data.images names Parquet files and folders of image files; name files of one kind")
    if are_folders == {True}:
        found = listed(choice.images)
        if not found.paths:
            raise UserError(f"{', '.join(choice.images)}: no image files; data.images needs at least one")
        return OnDemand(FolderImages(found, {}), wanted)
    tables = ParquetData(
        train=choice.images,
        held_out=choice.images,
        image_size=choice.decoded_size,
        num_classes=0,
        image_column=choice.image_column,
    )
    return OnDemand(TableImages(tables, choice.images), wanted)


class LatentSet:
    """Latents of one split.

    Raises:
        UserError: naming file and rule, where a file is not in its layout or a label out of range.
    """

    def __init__(self, choice: LatentsData, entries: tuple[str, ...]) -> None:
        self.choice = choice
        self.shape = (choice.channels, choice.image_size, choice.image_size)
        self.store = Store(choice, units(choice, entries))
        self.scaling = Scaling(choice.scale, choice.shift, self.shape)

    def __len__(self) -> int:
        return len(self.store.labels)

    def images(self, index: NDArray[np.int64]) -> Tensor:
        """(B, C, H, W) float32, scaled; drawn from a posterior with the noise of each sample's place in the data.

        Raises:
            UserError: one contains NaN or infinite values.
        """

        stored = self.stored(index, np.zeros(len(index), dtype=np.bool_))
        return self._scaled(stored, lambda: fixed_noise(index, self.shape))

    def drawn(self, index: NDArray[np.int64], seed: int, first: int) -> Tensor:
        """(B, C, H, W) float32 of samples `first` ... of the seed's training, posterior noise and flips drawn for each.

        Raises:
            UserError: one contains NaN or infinite values.
        """

        stored = self.stored(index, self.is_mirrored(seed, first, len(index)))
        return self._scaled(stored, lambda: draws.normal(seed, "posterior", first, len(index), self.shape, np.float32))

    def is_mirrored(self, seed: int, first: int, count: int) -> NDArray[np.bool_]:
        """Return whether samples `first` ... of the seed's training are the mirrored ones of their pairs, (count,)."""
        if self.choice.flips != "pair":
            return np.zeros(count, dtype=np.bool_)
        mirrored: NDArray[np.bool_] = draws.uniform(seed, "flip", first, count) < 0.5
        return mirrored

    def stored(self, index: NDArray[np.int64], is_mirrored: NDArray[np.bool_]) -> Tensor:
        """(B, C', H, W) float32 as stored, C' = 2C for moments; of the mirrored images where chosen."""
        stored = torch.from_numpy(self.store.read(index, is_mirrored))
        self._check_finite(stored, index, "contains NaN or infinite values; encode it again")
        return stored

    def _check_finite(self, values: Tensor, index: NDArray[np.int64], rule: str) -> None:
        """Raise UserError, naming the sample, where its values (B, ...) are not finite."""
        if torch.isfinite(values.sum()):  # far cheaper than a look at every value
            return
        is_finite = torch.isfinite(values).flatten(1).all(1).numpy()
        if not is_finite.all():
            raise UserError(f"{self.store.where(int(index[is_finite.argmin()]))}: {rule}")

    def _scaled(self, stored: Tensor, noise: Callable[[], NDArray[np.float32]]) -> Tensor:
        """Samples as the network learns them, of stored samples or moments."""
        latents = stored
        if self.choice.has_moments:
            mean, spread = stored.chunk(2, dim=1)
            std = spread if self.choice.quantity == "mean_std" else (0.5 * spread.clamp(*LOGVAR_RANGE)).exp()
            latents = mean + std * torch.from_numpy(noise())
        return latents if self.choice.already_scaled else self.scaling.scaled(latents)

    def labels(self, index: NDArray[np.int64]) -> Tensor:
        """(B,) int64; all 0 where there are no classes."""
        return torch.from_numpy(self.store.labels[index])

    @cached_property
    def sha256(self) -> str:
        """Hash of the stored latents, in their order."""
        return self.store.sha256()


class PicturedLatents(LatentSet):
    """Training latents with the images that they were encoded from, in a folder beside theirs, for REPA.

    A latent and its image have the same folder and name, apart from suffixes; in REPA's layout
    `00000/img-mean-std-00000000.npy` and `00000/img00000000.png`.

    Raises:
        UserError: also where a latent has no image, or several.
    """

    def __init__(self, choice: LatentsData, entries: tuple[str, ...]) -> None:
        super().__init__(choice, entries)
        assert choice.train_images is not None
        self._tree = open_tree(choice.train_images)
        self._wanted = Wanted(
            choice.decoded_size, 3, enlarge=False, key="data.decoded_size", way_out="give the images that were encoded"
        )

        # The name of each latent's image.
        by_key: dict[str, str] = {}
        for name in self._tree.names(""):
            if not name.lower().endswith(_SUFFIXES):
                continue
            other = by_key.setdefault(_key(name), name)
            if other != name:
                raise UserError(f"{self._tree.path}: {other} and {name} are images of one latent; keep one")
        self._pictures = []
        for name in self.store.names:
            if _key(name) not in by_key:
                rule = "data.train_images needs one of each"
                raise UserError(f"{self._tree.path}: no image of latent {name}; {rule}")
            self._pictures.append(by_key[_key(name)])

    def pictures(self, index: NDArray[np.int64], seed: int, first: int) -> Tensor:
        """(B, 3, S, S) float32 in [-1, 1], S = decoded_size, their centres; mirrored where the latents drawn are.

        Raises:
            UserError: naming an image that cannot be used.
        """
        pixels = np.stack([self._decoded(self._pictures[item]) for item in index.tolist()])
        is_mirrored = torch.from_numpy(self.is_mirrored(seed, first, len(index)))
        return flip(from_uint8(torch.from_numpy(pixels)), is_mirrored)

    def _decoded(self, name: str) -> NDArray[np.uint8]:
        try:
            return decode(io.BytesIO(self._tree.read(name, _MOST_BYTES)), self._wanted)
        except UserError:
            raise
        except ValueError as error:
            raise UserError(f"{self._tree.where(name)}: {error}") from None


def _key(name: str) -> str:
    """What the names of a latent and of its image have in common."""
    folder, _, file = name.rpartition("/")
    stem = file.partition(".")[0]
    numbered = _NUMBERED.fullmatch(stem)
    return f"{folder}/{numbered[1] if numbered else stem}"


class CaptionedLatents(LatentSet):
    """Latents of one split with captions, whose features are stored."""

    @property
    def empty_text(self) -> Tensor:
        """(M, E) float32, of the empty caption."""
        return torch.from_numpy(self.store.empty_text)

    def text(self, index: NDArray[np.int64], seed: int, first: int) -> Tensor:
        """(B, M, E) float32, a caption of each of samples `first` ... of the seed's training.

        Raises:
            UserError: one contains NaN or infinite values.
        """
        chosen = self._chosen(index, seed, first)
        text = torch.from_numpy(self.store.text(index, chosen))
        self._check_finite(text, index, "features of its captions contain NaN or infinite values; encode them again")
        return text

    def captions(self, index: NDArray[np.int64], seed: int, first: int) -> list[str]:
        """Return the captions that `text` draws; "" where only features are stored."""
        return self.store.captions(index, self._chosen(index, seed, first))

    def _chosen(self, index: NDArray[np.int64], seed: int, first: int) -> NDArray[np.int64]:
        return drawn_captions(self.store.counts[index], seed, first)


def file_problems(choice: LatentsData, generates: bool) -> Iterator[str]:
    """The first mistake that headers, labels, a few hundred samples and manifests show, and what is wrong with images.

    Real images are read only where samples are generated.
    """
    # Manifests, both splits, and images beside the training latents.
    try:
        paths = manifests_of([*choice.train, *choice.held_out])
        manifests = {path: _checked_manifest(choice, path) for path in paths}
        source = open_latents(choice)
        train, held_out = source.train, source.held_out
        assert isinstance(train, LatentSet) and isinstance(held_out, LatentSet)
        _check_split(train, choice.train, manifests)
        _check_split(held_out, choice.held_out, manifests)
        if isinstance(train, PicturedLatents):
            train.pictures(np.unique([0, len(train) - 1]), 0, 0)
        real_images = _real_images(choice) if generates and choice.images else None
    except UserError as error:
        yield str(error)
        return

    # Every class, and real images.
    if generates:
        yield from absent_classes(train.store.labels, choice.num_classes)
    if real_images is not None:
        yield from real_images.problems()


def _check_split(found: LatentSet, entries: tuple[str, ...], manifests: Mapping[Path, LatentManifest]) -> None:
    """Look at some samples of a split. Raises UserError naming file and rule."""
    choice = found.choice
    for path, manifest in manifests.items():
        if len(found) != manifest.count and [Path(entry) for entry in entries] == [path.parent]:
            rule = f"has count {manifest.count}, and there are {len(found)}; complete the files, or correct it"
            raise UserError(f"{path} {rule}")

    # First and last sample of every file or folder, mirrored ones and captions, too.
    for first, end in zip(found.store.firsts, found.store.ends, strict=True):
        rows = np.unique([first, end - 1])
        for is_mirrored in {False, choice.flips == "pair"}:
            found.stored(rows, np.full(len(rows), is_mirrored))
        if choice.captions is not None:
            _check_captions(found, rows)
    _check_spread(found, ", ".join(entries))


def _checked_manifest(choice: LatentsData, path: Path) -> LatentManifest:
    """A manifest. Raises UserError where it cannot be read, says other things than the suite, or files are missing."""
    manifest = read_manifest(path)
    for key, says in facts_of(manifest).items():
        value = getattr(choice, key)
        is_left_out = key in ("num_classes", "captions") and not value
        if value != says and not is_left_out:
            rule = f"has {key} {says!r}, and the suite data.{key} {value!r}; correct the one that is wrong"
            raise UserError(f"{path} {rule}")
    if manifest.shape[1] != manifest.shape[2]:
        raise UserError(f"{path} has shape {manifest.shape}; latents must be square")
    if missing := [name for name in manifest.files if not (path.parent / name).is_file()]:
        rule = f"which is missing ({len(missing)} of {len(manifest.files)} files); copy them again"
        raise UserError(f"{path} lists {missing[0]}, {rule}")
    return manifest


def _check_captions(found: LatentSet, rows: NDArray[np.int64]) -> None:
    """Raise UserError where features of these samples' first or last caption, or of the empty one, are not there."""
    stored = found.store
    last = stored.counts[rows] - 1
    texts = [stored.text(rows, np.zeros_like(rows)), stored.text(rows, last)]
    if not all(np.isfinite(text).all() for text in (*texts, stored.empty_text)):
        raise UserError(f"{stored.where(int(rows[0]))}: features of captions contain NaN or infinite values")


def _check_spread(found: LatentSet, where: str) -> None:
    """Raise UserError where the values of some samples contradict what they are said to be."""
    choice = found.choice
    rows = np.unique(np.linspace(0, len(found) - 1, _LOOKED_AT).astype(np.int64))

    # Standard deviations are not negative; the log-variances of an encoder are, nearly all.
    if choice.has_moments:
        spread = found.stored(rows, np.zeros(len(rows), dtype=np.bool_)).chunk(2, dim=1)[1]
        alike = ""
        if choice.quantity == "mean_std" and (spread < 0).any():
            alike = "mean_logvar"
        if choice.quantity == "mean_logvar" and (spread >= 0).all():
            alike = "mean_std"
        if alike:
            way_out = f"set data.quantity: {alike}, or name the layout that wrote them"
            raise UserError(f"{where}: quantity {choice.quantity}, and the values look like {alike}: {way_out}")

    # Scaled latents have a standard deviation near 1.
    std = float(found.images(rows).std())
    low, high = _PLAUSIBLE_STD
    if not low <= std <= high:
        raise UserError(
            f"{where}: {len(rows)} scaled latents have a standard deviation of {std:.3g}, and it must lie in "
            f"{low:g}..{high:g}: the scale is missing or applied twice (data.scale, data.already_scaled), or they are "
            "moments taken for samples"
        )
