"""What every layout's reader gives: stored values of chosen samples, and labels. Opening a set needs no torch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tread_bench.core.errors import UserError
from tread_bench.data.latents.arrays import WrongShapeError, npy_array
from tread_bench.data.latents.captions import CaptionStore
from tread_bench.data.latents.family import LatentsData
from tread_bench.data.latents.layouts import alike

MEAN_AND_SPREAD = 2  # moments have twice the channels of a sample


class Store:
    """The stored samples of one split, in files or in folders of files.

    Args:
        paths: of the files or folders.
        labels: of the samples in each of them, (N,); not read where there are no classes.

    Raises:
        UserError: a label is not one of the classes; from its methods, naming file and rule.
    """

    names: Sequence[str] = ()  # of the samples' files; empty where they have none of their own

    @cached_property
    def captioned(self) -> CaptionStore:
        """The captions of the samples, where the options say that they are stored. Raises UserError."""
        raise NotImplementedError

    def __init__(self, choice: LatentsData, paths: Sequence[str], labels: Sequence[NDArray[np.int64]]) -> None:
        self.choice = choice
        self.paths = paths
        counts = [len(found) for found in labels]
        self.ends = np.cumsum(counts)  # number of samples up to the end of each file or folder
        self.firsts = self.ends - counts
        self.labels: NDArray[np.int64] = np.zeros(sum(counts), dtype=np.int64)
        if choice.num_classes:
            self.labels = np.concatenate(labels)
            for path, found in zip(paths, labels, strict=True):
                _check_labels(choice, found, path)

    def read(self, rows: NDArray[np.int64], is_mirrored: NDArray[np.bool_]) -> NDArray[np.float32]:
        """(B, C', H, W) float32 as stored, C' = C for samples and 2C for moments; of the mirrored image where chosen.

        Raises:
            UserError: naming file and rule.
        """
        raise NotImplementedError

    def where(self, row: int) -> str:
        """File and place of a sample, for messages."""
        raise NotImplementedError

    def sha256(self) -> str:
        """Hash of content and labels in their order."""
        from tread_bench.data.source import files_sha256  # with torch

        return files_sha256(self.paths)

    def place_of(self, row: int) -> tuple[int, int]:
        """Return the number of the file or folder that a sample is in, and its place there."""
        file = int(np.searchsorted(self.ends, row, side="right"))
        return file, row - int(self.firsts[file])

    def by_file(self, rows: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.int64]]]:
        """Yield for each file that has some of these samples: its number, their positions in `rows`, their places."""
        files = np.searchsorted(self.ends, rows, side="right")
        for file in np.unique(files).tolist():
            positions = np.flatnonzero(files == file)
            yield file, positions, rows[positions] - self.firsts[file]


def stored_array(choice: LatentsData, content: bytes, where: str, batch: tuple[int, ...] = ()) -> NDArray[np.generic]:
    """Return what an .npy file stores of a sample, (*batch, C', H, W). Raises UserError; `where` names the file."""
    try:
        return npy_array(content, where, (*batch, *choice.stored_shape))
    except WrongShapeError as error:
        found = error.shape
        raise wrong_shape(choice, where, found[len(batch) :], found[: len(batch)]) from None


def wrong_shape(choice: LatentsData, where: str, found: Sequence[int], batch: Sequence[int | str] = ()) -> UserError:
    """Return the error of an array of another shape, which says so where samples and moments were taken for each other.

    Args:
        found: the array's shape, without that of the batch.
        batch: what stands before (C, H, W) in the file.
    """
    # What was found, and what the suite requests.
    expected = choice.stored_shape
    requested = _written((*(["N"] if batch else []), *expected))
    shapes = (
        f"{where} of shape {_written((*batch, *found))} where data.channels and data.image_size request {requested}"
    )

    # Samples and moments that were taken for each other.
    if tuple(found) == (MEAN_AND_SPREAD * choice.channels, *expected[1:]):
        reason = "twice the channels are moments, not samples"
        way_out = (
            "set data.quantity to mean_std or mean_logvar"
            if "quantity" not in choice.fixed
            else f"layout {choice.layout} holds samples; {_other_layouts(choice)}"
        )
    elif choice.has_moments and tuple(found) == (choice.channels, *expected[1:]):
        reason = f"quantity {choice.quantity} has twice the channels; these are samples, or channels were lost"
        way_out = (
            "set data.quantity: sample"
            if "quantity" not in choice.fixed
            else f"layout {choice.layout} holds moments; {_other_layouts(choice)}"
        )
    else:
        return UserError(shapes)
    return UserError(f"{shapes}: {reason}; {way_out}")


def _other_layouts(choice: LatentsData) -> str:
    names = alike(choice.about)
    return f"set data.layout: {' or '.join(names)}" if names else "name the layout that it was written in"


def _written(shape: Iterable[int | str]) -> str:
    return f"({', '.join(map(str, shape))})"


def _check_labels(choice: LatentsData, labels: NDArray[np.int64], where: str) -> None:
    """Raise UserError where a label is not one of the classes; `where` names the file."""
    wrong = np.flatnonzero((labels < 0) | (labels >= choice.num_classes))
    if len(wrong):
        first = int(wrong[0])
        raise UserError(
            f"{where}, label {first}: {labels[first]} where data.num_classes allows 0 to {choice.num_classes - 1}"
        )
