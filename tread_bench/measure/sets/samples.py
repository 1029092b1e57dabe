"""A set of images, as an .npz file, a folder or a data source holds it, in batches: never as a whole in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from tread_bench.core.errors import UserError, collected
from tread_bench.core.names import few
from tread_bench.measure.sets.folder import PNG, FolderStore
from tread_bench.measure.sets.labels import array_sha256, labels_of_file
from tread_bench.measure.sets.npz import Npz
from tread_bench.measure.sets.npz_images import NpzStore

_SHOWN = 3


class ImageStream(Protocol):
    """A set of images that is read in order."""

    @property
    def sha256(self) -> str:
        """Hash of content and order."""

    @property
    def count(self) -> int: ...

    def batches(self, size: int, start: int) -> Iterator[Tensor]:
        """uint8 (B, C, H, W), from image `start` on, `size` at a time."""


class ImageStore(ImageStream, Protocol):
    """Where the images of a set are."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """(C, H, W)."""


@dataclass(frozen=True, eq=False)
class SampleSet:
    """Images of one size, in a fixed order, read batch by batch.

    Args:
        name: of the file or folder, without its place, or of the data source.
        labels: (n,) int64, the class of each image; None: not known.
        classes: name of each class, by its label; None: they have numbers alone.
    """

    name: str
    labels: NDArray[np.int64] | None = field(repr=False)
    store: ImageStore = field(repr=False)
    classes: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return self.count

    @property
    def count(self) -> int:
        return self.store.count

    @property
    def shape(self) -> tuple[int, int, int]:
        """(C, H, W); C is 1 or 3."""
        return self.store.shape

    @cached_property
    def sha256(self) -> str:
        """Hash of the files' content, without labels that were given apart; unchanged files are hashed only once."""
        return self.store.sha256

    @cached_property
    def labels_sha256(self) -> str:
        """Hash of the labels; empty: there are none."""
        return "" if self.labels is None else array_sha256(self.labels)

    def batches(self, size: int, start: int = 0) -> Iterator[Tensor]:
        """Yield images (B, C, H, W), uint8, from image `start` on, in order, `size` at a time.

        Raises:
            UserError: a file is damaged, or has changed since the set was opened; it is named.
        """
        return self.store.batches(size, start)

    def warnings(self) -> Iterator[str]:
        """Yield what to know of all figures of these images."""
        if isinstance(self.store, FolderStore):
            yield from self.store.warnings()

    def picture(self, n: int) -> Tensor:
        """Return the first `n` images (n, C, H, W), uint8; all of them where there are fewer."""
        return next(self.batches(min(n, self.count)))


def open_samples(path: str | Path, labels: str | Path | None = None, num: int | None = None) -> SampleSet:
    """Open images to be scored. Headers are read and checked, pixels are not.

    Args:
        path: an .npz file with `arr_0`, images (n, H, W, C) of uint8, as ADM's evaluator takes them; integers (n,)
            in `arr_1` or `labels` are their classes. Or a folder of PNG files in the order of the numbers in their
            names, where class folders are classes.
        labels: an .npy file of integers (n,), in place of those.
        num: of a folder, open only the first images in that order; None: all.

    Raises:
        UserError: all mistakes, a line for each, with file and member.

    Source of the format: Dhariwal and Nichol 2021, guided_diffusion, evaluations/evaluator.py.
    """
    problems: list[str] = []
    found, given = None, None
    with collected(problems):
        found = open_images(Path(path))
    if labels is not None:
        with collected(problems):
            given = labels_of_file(Path(labels), None if found is None else found.count)
    if problems or found is None:
        raise UserError("\n".join(problems))
    found = found if given is None else replace(found, labels=given, classes=None)
    if num is None or not isinstance(found.store, FolderStore):
        return found
    return replace(found, store=found.store.first(num), labels=None if found.labels is None else found.labels[:num])


def open_images(path: Path, suffixes: tuple[str, ...] = PNG) -> SampleSet:
    """Open the images of an .npz file, or those in a folder and below. Raises UserError."""
    if path.is_dir():
        folder = FolderStore.open(path, suffixes)
        return SampleSet(path.resolve().name, folder.labels, folder, folder.classes)
    npz = NpzStore.open(Npz(path))
    return SampleSet(path.stem, npz.labels, npz)


def matched(samples: SampleSet, reference: SampleSet) -> tuple[SampleSet, SampleSet]:
    """Return both sets with labels under one numbering, that of the reference, and names where one set has them.

    Raises:
        UserError: the reference lacks a class that the samples have by name; or one set has names, the other numbers,
            and these are not the places of the names.
    """
    if samples.labels is None or reference.labels is None:
        return samples, reference

    # Both have names, by which their classes match.
    if samples.classes is not None and reference.classes is not None:
        places = {name: place for place, name in enumerate(reference.classes)}
        if lacking := [name for name in samples.classes if name not in places]:
            there = few(reference.classes, _SHOWN)
            raise UserError(f"the reference has no class {few(lacking, _SHOWN)}; it has {there}")
        labels = np.array([places[name] for name in samples.classes])[samples.labels]
        return replace(samples, labels=labels, classes=reference.classes), reference

    # One has: the other's numbers must be the places of its names.
    names = samples.classes or reference.classes
    if names is None:
        return samples, reference
    numbers = np.unique(reference.labels if reference.classes is None else samples.labels)
    if not np.array_equal(numbers, np.arange(len(names))):
        raise UserError(
            f"one set has {len(names)} classes by name and the other {len(numbers)} by number, which cannot be "
            "matched; name the class folders of both alike"
        )
    return replace(samples, classes=names), replace(reference, classes=names)
