"""What every layout's reader gives: stored values of chosen samples, and labels. Opening a set needs no torch."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tread_bench.core.describe.plugins import named
from tread_bench.core.errors import UserError
from tread_bench.core.stored.data_files import content_sha256
from tread_bench.data.latents.arrays import npy_array
from tread_bench.data.latents.layouts import alike
from tread_bench.data.latents.options import LatentsData, empty_text_file


class Unit:
    """Stored samples in one file or folder, as a layout has them; rows are counted in it.

    Args:
        labels: of the samples, (N,); not read where there are no classes.

    Raises:
        UserError: a label is not one of the classes; from its methods, naming file and rule.
    """

    names: Sequence[str] = ()  # of the samples' files; empty where they have none of their own

    def __init__(self, choice: LatentsData, path: str, labels: NDArray[np.int64]) -> None:
        self.choice = choice
        self.path = path
        self.labels = labels
        if not len(labels):
            raise UserError(f"{path}: no samples in it")
        is_wrong = (labels < 0) | (labels >= choice.num_classes)
        if choice.num_classes and is_wrong.any():
            first = int(is_wrong.argmax())
            rule = f"data.num_classes allows 0 to {choice.num_classes - 1}"
            raise UserError(f"{path}, label {first}: {labels[first]} where {rule}")

    def read(self, rows: NDArray[np.int64], is_mirrored: NDArray[np.bool_]) -> Iterable[NDArray[np.generic]]:
        """(B, C', H, W) as stored, C' = C for samples and 2C for moments; of the mirrored image where chosen."""
        raise NotImplementedError

    def where(self, row: int) -> str:
        """File and place of a sample, for messages."""
        raise NotImplementedError

    @property
    def counts(self) -> NDArray[np.int64]:
        """(N,) captions of each sample, where the options say that they are stored."""
        raise NotImplementedError

    def text(self, row: int, caption: int) -> NDArray[np.generic]:
        """(M, E) features of one of a sample's captions."""
        raise NotImplementedError

    def caption(self, row: int, caption: int) -> str:
        """Return that caption; "" where only features are stored."""
        return ""

    @property
    def empty_text(self) -> NDArray[np.float32]:
        """(M, E) features of the empty caption."""
        raise NotImplementedError


class Store:
    """The stored samples of one split, in one unit after the other. Raises UserError naming file and rule.

    Args:
        paths: of the files or folders.
    """

    def __init__(self, choice: LatentsData, paths: Sequence[str]) -> None:
        reader = named(choice.about.reader)
        self.choice = choice
        self.units: list[Unit] = [reader(choice, path) for path in paths]
        sizes = [len(unit.labels) for unit in self.units]
        self.ends = np.cumsum(sizes)  # number of samples up to the end of each unit
        self.firsts = self.ends - sizes
        self.labels: NDArray[np.int64] = np.concatenate([unit.labels for unit in self.units])
        self.names = [name for unit in self.units for name in unit.names]

    def read(self, rows: NDArray[np.int64], is_mirrored: NDArray[np.bool_]) -> NDArray[np.float32]:
        """(B, C', H, W) float32 as stored; each unit is read once, in the order of its samples."""
        found = np.empty((len(rows), *self.choice.stored_shape), dtype=np.float32)
        units = np.searchsorted(self.ends, rows, side="right")
        for number in np.unique(units).tolist():
            positions = np.flatnonzero(units == number)
            positions = positions[rows[positions].argsort(kind="stable")]
            values = self.units[number].read(rows[positions] - self.firsts[number], is_mirrored[positions])
            for position, value in zip(positions, values, strict=True):
                found[position] = value
        return found

    def where(self, row: int) -> str:
        """File and place of a sample, for messages."""
        unit, place = self._place(row)
        return unit.where(place)

    def sha256(self) -> str:
        """Hash of the files' contents, in their order."""
        paths = [unit.path for unit in self.units]
        paths += filter(None, [empty_text_file(self.choice)])
        return hashlib.sha256(" ".join(map(content_sha256, paths)).encode()).hexdigest()

    def _place(self, row: int) -> tuple[Unit, int]:
        """The unit that a sample is in, and its place there."""
        number = int(np.searchsorted(self.ends, row, side="right"))
        return self.units[number], row - int(self.firsts[number])

    # ---- captions, where the options say that they are stored

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """(N,) captions of each sample, at least one."""
        return np.concatenate([unit.counts for unit in self.units])

    @cached_property
    def empty_text(self) -> NDArray[np.float32]:
        """(M, E), of the empty caption, which all units have alike."""
        first = self.units[0].empty_text
        for unit in self.units:
            if not np.array_equal(first, unit.empty_text):
                raise UserError(f"{unit.path}: another empty caption than in {self.units[0].path}; encode both alike")
        return first

    def text(self, rows: NDArray[np.int64], chosen: NDArray[np.int64]) -> NDArray[np.float32]:
        """(B, M, E) features of the chosen caption of each sample; those that are never used are never read."""
        return np.stack([unit.text(*place) for unit, *place in self._captions(rows, chosen)], dtype=np.float32)

    def captions(self, rows: NDArray[np.int64], chosen: NDArray[np.int64]) -> list[str]:
        """Return the chosen captions; "" where only features are stored."""
        return [unit.caption(*place) for unit, *place in self._captions(rows, chosen)]

    def _captions(self, rows: NDArray[np.int64], chosen: NDArray[np.int64]) -> Iterator[tuple[Unit, int, int]]:
        for row, caption in zip(rows.tolist(), chosen.tolist(), strict=True):
            yield (*self._place(row), caption)


def text_shape(choice: LatentsData) -> tuple[int, int]:
    """Tokens and width of the stored captions."""
    assert choice.text_shape is not None
    return choice.text_shape


def stored_array(choice: LatentsData, content: bytes, where: str, batch: tuple[int, ...] = ()) -> NDArray[np.generic]:
    """Return what an .npy file stores of a sample, (*batch, C', H, W). Raises UserError; `where` names the file."""
    array = npy_array(content, where)
    if array.shape != (*batch, *choice.stored_shape):
        raise wrong_shape(choice, where, array.shape)
    return array


def wrong_shape(choice: LatentsData, where: str, found: Sequence[int]) -> UserError:
    """Return the error of an array of another shape, which says so where samples and moments were taken for each other.

    Args:
        found: the array's shape.
    """
    requested = choice.stored_shape
    shapes = f"{where} of shape {tuple(found)} where data.channels and data.image_size request {requested} of a sample"
    held, quantity, channels = "moments", "mean_std or mean_logvar", 2 * choice.channels
    if choice.has_moments:
        held, quantity, channels = "samples", "sample", choice.channels
    if tuple(found[-3:]) != (channels, *requested[1:]):
        return UserError(shapes)
    way_out = f"data.quantity: {quantity}"
    if "quantity" in choice.about.fixed:
        way_out = f"data.layout: {' or '.join(alike(choice.about)) or 'the one that wrote them'}"
    return UserError(f"{shapes}: these are {held}, and moments have twice the channels of samples; set {way_out}")
