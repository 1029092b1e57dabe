"""Local data sets of Hugging Face's `datasets`. See `images/encoded.py` for when images are decoded."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from tread_bench.core.errors import UserError
from tread_bench.core.stored.data_files import content_sha256
from tread_bench.core.stored.data_paths import all_matches
from tread_bench.data.captions.tables import caption_column, read_column
from tread_bench.data.captions.texts import Reading
from tread_bench.data.check import absent_classes
from tread_bench.data.hf_dataset.family import HfDatasetData, data_path, open_dataset
from tread_bench.data.images.decode import Wanted
from tread_bench.data.images.encoded import open_images
from tread_bench.data.images.family import too_few_to_split
from tread_bench.data.images.headers import end_problems, header_problems
from tread_bench.data.images.table import check_schema, image_file, labels_of
from tread_bench.data.source import DataSource


def open_datasets(choice: HfDatasetData) -> DataSource:
    """Both splits. Raises UserError naming file, row (from 0) and rule."""
    train = DatasetImages(choice, choice.train)
    held_out = DatasetImages(choice, choice.held_out) if choice.held_out else None
    return open_images(choice, train, held_out)


class DatasetImages:
    """The rows of data sets, one after the other.

    Raises:
        UserError: naming file, row (from 0) and rule.
    """

    def __init__(self, choice: HfDatasetData, entries: tuple[str, ...]) -> None:
        self._choice = choice
        self._paths = all_matches(entries)
        self._images = []
        labels = [np.zeros(0, dtype=np.int64)]
        reading = Reading()
        for path in self._paths:
            # Schema, and whether all images are inside the file.
            rows = open_dataset(path).with_format("arrow")
            schema = rows.features.arrow_schema
            check_schema(choice, path, schema)
            try:
                rows.data.column(choice.image_column).validate(full=True)
            except pa.ArrowException as error:
                raise UserError(f"{path}: cannot be read: {error}; write it again") from None

            # Columns; images stay on disk.
            self._images.append(rows.select_columns([choice.image_column]))
            labels.append(np.zeros(len(rows), dtype=np.int64))
            if choice.num_classes:
                column = rows.select_columns([choice.label_column])[:].column(0)
                labels[-1] = labels_of(choice, path, column)
            if choice.captions is not None:
                column = rows.select_columns([caption_column(choice)[1]])[:].column(0)
                read_column(choice, path, schema, column, reading)
        self._firsts = np.cumsum([len(found) for found in labels])  # rows before each data set
        self.classes = np.concatenate(labels)
        if not len(self.classes):
            raise UserError(f"{', '.join(self._paths)}: no rows; a split needs at least one image")
        self.texts = None if choice.captions is None else reading.texts()

    @cached_property
    def sha256(self) -> str:
        """Hash of the data sets' files, and of the columns that are read."""
        read = [self._choice.image_column, self._choice.label_column, self._choice.num_classes]
        found = [content_sha256(data_path(path)) for path in self._paths]
        return hashlib.sha256(repr((read, found)).encode()).hexdigest()

    def open(self, item: int) -> BinaryIO:
        """Read an image file. Raises ValueError."""
        number, row = self._place(item)
        return image_file(self._choice, self._images[number][row].column(0)[0].as_py())

    def name(self, item: int) -> str:
        """Data set and row of an image."""
        number, row = self._place(item)
        return f"{self._paths[number]}, row {row}"

    def _place(self, item: int) -> tuple[int, int]:
        """Number of the data set, and the row in it."""
        number = int(np.searchsorted(self._firsts, item, side="right")) - 1
        return number, item - int(self._firsts[number])


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
