"""What every layout's reader gives: stored values of chosen samples, and labels. Opening a set needs no torch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tread_bench.core.errors import UserError
from tread_bench.data.latents.family import LatentsData
from tread_bench.data.latents.layouts import alike

MEAN_AND_SPREAD = 2  # moments have twice the channels of a sample


class Store(Protocol):
    """The stored samples of one split."""

    labels: NDArray[np.int64]
    ends: NDArray[np.int64]  # number of samples up to the end of each file or folder
    classes: tuple[str, ...]  # names of the labels, where folders define them
    names: Sequence[str]  # of the samples' files; empty where they have none of their own

    def read(self, rows: NDArray[np.int64], is_mirrored: NDArray[np.bool_]) -> NDArray[np.float32]:
        """(B, C', H, W) float32 as stored, C' = C for samples and 2C for moments; of the mirrored image where chosen.

        Raises:
            UserError: naming file and rule.
        """

    def where(self, row: int) -> str:
        """File and place of a sample, for messages."""

    def sha256(self) -> str:
        """Hash of content and labels in their order."""


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


def place_of(ends: NDArray[np.int64], row: int) -> tuple[int, int]:
    """Number of the file or folder that a sample is in, and its place there.

    Args:
        ends: of a `Store`.
    """
    file = int(np.searchsorted(ends, row, side="right"))
    return file, row - _first(ends, file)


def by_file(
    ends: NDArray[np.int64], rows: NDArray[np.int64]
) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.int64]]]:
    """Yield for each file that has some of these samples: its number, their positions in `rows`, their places in it."""
    files = np.searchsorted(ends, rows, side="right")
    for file in np.unique(files).tolist():
        positions = np.flatnonzero(files == file)
        yield file, positions, rows[positions] - _first(ends, file)


def _first(ends: NDArray[np.int64], file: int) -> int:
    return int(ends[file - 1]) if file else 0


def files_sha256(paths: Sequence[str]) -> str:
    """Hash of the contents of files, in their order."""
    from tread_bench.data import source  # with torch

    return source.files_sha256(paths)


def check_labels(choice: LatentsData, labels: NDArray[np.int64], where: str) -> None:
    """Raise UserError where a label is not one of the classes; `where` names the file."""
    wrong = np.flatnonzero((labels < 0) | (labels >= choice.num_classes))
    if len(wrong):
        first = int(wrong[0])
        raise UserError(
            f"{where}, label {first}: {labels[first]} where data.num_classes allows 0 to {choice.num_classes - 1}"
        )
