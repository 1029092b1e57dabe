"""Local data sets of Hugging Face's `datasets`, mapped into memory.

See `images/encoded.py` for when images are decoded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tread_bench.core.errors import UserError
from tread_bench.core.stored.data_files import content_sha256
from tread_bench.core.stored.data_paths import all_matches, folder_name
from tread_bench.data.captions.tables import caption_column, read_column
from tread_bench.data.captions.texts import Reading
from tread_bench.data.check import absent_classes
from tread_bench.data.hf_dataset.arrow import arrow_files
from tread_bench.data.hf_dataset.family import HfDatasetData
from tread_bench.data.images.decode import Wanted
from tread_bench.data.images.encoded import open_images
from tread_bench.data.images.family import too_few_to_split
from tread_bench.data.images.headers import end_problems, header_problems
from tread_bench.data.images.table import check_schema, image_file, labels_of
from tread_bench.data.source import DataSource


def open_dataset(choice: HfDatasetData, folder: Path | None = None) -> DataSource:
    """Both splits. Raises UserError naming file, row (from 0) and rule."""
    train = DatasetImages(choice, choice.train)
    held_out = DatasetImages(choice, choice.held_out) if choice.held_out else None
    return open_images(choice, train, held_out, folder)


class DatasetImages:
    """The rows of data sets, one after the other.

    Raises:
        UserError: naming file, row (from 0) and rule.
    """

    def __init__(self, choice: HfDatasetData, entries: tuple[str, ...]) -> None:
        self._choice = choice
        self._folders = all_matches(entries)
        self._files: list[tuple[str, pa.ChunkedArray]] = []  # path and images of each
        labels = [np.zeros(0, dtype=np.int64)]
        reading = Reading()
        for path, table in (file for folder in self._folders for file in arrow_files(folder)):
            check_schema(choice, path, table.schema)
            images = table.column(choice.image_column)
            _check_places(path, images)
            self._files.append((path, images))
            labels.append(_labels(choice, path, table))
            if choice.captions is not None:
                read_column(choice, path, table.schema, table.column(caption_column(choice)[1]), reading)
        self._firsts = np.cumsum([len(found) for found in labels])  # number of rows before each file
        self.classes = np.concatenate(labels)
        if not len(self.classes):
            raise UserError(f"{', '.join(self._folders)}: no rows; a split needs at least one image")
        self.texts = None if choice.captions is None else reading.texts()

    @cached_property
    def sha256(self) -> str:
        """Hash of the data sets' files, and of the columns that are read."""
        read = [self._choice.image_column, self._choice.label_column, self._choice.num_classes]
        found = [content_sha256(folder_name(folder)) for folder in self._folders]
        return hashlib.sha256(repr((read, found)).encode()).hexdigest()

    def open(self, item: int) -> BinaryIO:
        """Read an image file. Raises ValueError."""
        number, row = self._place(item)
        _, images = self._files[number]
        return image_file(self._choice, images[row].as_py())

    def name(self, item: int) -> str:
        """File and row of an image."""
        number, row = self._place(item)
        path, _ = self._files[number]
        return f"{path}, row {row}"

    def _place(self, item: int) -> tuple[int, int]:
        """Number of the file, and the row in it."""
        number = int(np.searchsorted(self._firsts, item, side="right")) - 1
        return number, item - int(self._firsts[number])


def _check_places(path: str, images: pa.ChunkedArray) -> None:
    """Raise UserError where an image would be outside the file; the images themselves are not read."""
    try:
        images.validate(full=True)
    except pa.ArrowException as error:
        raise UserError(f"{path}: cannot be read: {error}; write the file again") from None


def _labels(choice: HfDatasetData, path: str, table: pa.Table) -> NDArray[np.int64]:
    """(N,); all 0 where there are no classes."""
    if not choice.num_classes:
        return np.zeros(table.num_rows, dtype=np.int64)
    return labels_of(choice, path, table.column(choice.label_column))


def file_problems(choice: HfDatasetData, generates: bool) -> Iterator[str]:
    """A message for each data set that cannot be used: its columns, all labels, and its first and last image."""
    for key in ("train", "held_out"):
        entries = all_matches(getattr(choice, key))
        labels = []
        for entry in entries:
            try:
                images = DatasetImages(choice, (entry,))
            except UserError as error:
                yield str(error)
                continue
            labels.append(images.classes)
            yield from end_problems(images, Wanted.of(choice))
        if key == "train" and len(labels) == len(entries):
            all_labels = np.concatenate(labels)
            yield from too_few_to_split(choice, len(all_labels))
            if generates:
                yield from absent_classes(all_labels, choice.num_classes)


def image_problems(choice: HfDatasetData, generates: bool) -> Iterator[str]:
    """A message for each image that cannot be used, by its header; see `header_problems`."""
    for entry in all_matches((*choice.train, *choice.held_out)):
        with suppress(UserError):  # which `file_problems` reports
            yield from header_problems(DatasetImages(choice, (entry,)), entry, Wanted.of(choice))
