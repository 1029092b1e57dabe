"""Local Parquet files in Hugging Face's image schema: a struct column of `bytes` and `path`, and an integer label.

For training, every image is decoded once into one uint8 array: N * C * H * W bytes stay in memory (CIFAR-10: 184 MB),
plus 512 encoded images while reading. Rows of a Parquet file cannot be read one by one, so a set that does not fit into
memory is refused. Real images that samples of latents are compared with are decoded as they are needed.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray
from torch import Tensor

from tread_bench.core.errors import UserError
from tread_bench.core.stored.data_paths import expanded, named_where_unreadable
from tread_bench.core.stored.foreign import check_file
from tread_bench.data.captions.split import with_captions
from tread_bench.data.captions.tables import caption_column, read_column
from tread_bench.data.captions.texts import Reading, Texts
from tread_bench.data.check import absent_classes, message_of
from tread_bench.data.images.decode import Wanted, decode, is_turned, opened, turned
from tread_bench.data.images.family import pixel_bytes
from tread_bench.data.images.headers import shortened
from tread_bench.data.images.table import check_schema, image_file, labels_of
from tread_bench.data.parquet.family import SUFFIXES, ParquetData
from tread_bench.data.source import DataSource, ImageSet, files_sha256

log = logging.getLogger(__name__)

_ROWS_AT_A_TIME = 512
_PAGE_BYTES = 2**16  # read at a time where a few rows are looked at


def read_parquet(choice: ParquetData) -> DataSource:
    """Both splits. Raises UserError naming file, row (from 0) and rule."""
    train, held_out = (_opened(choice, paths) for paths in (choice.train, choice.held_out))
    source = decode_all(choice, train, held_out)
    return with_captions(choice.captions, source, [_texts(choice, files) for files in (train, held_out)])


Files = list[tuple[str, pq.ParquetFile]]


def _opened(choice: ParquetData, entries: tuple[str, ...]) -> Files:
    return [(path, _open(choice, path)) for path in expanded(entries, SUFFIXES)]


def decode_all(choice: ParquetData, train: Files, held_out: Files) -> DataSource:
    """Both splits in memory. Raises UserError."""
    count = sum(file.metadata.num_rows for _, file in (*train, *held_out))
    need, free = pixel_bytes(choice, count), psutil.virtual_memory().available
    if need > free:
        raise UserError(
            f"data parquet: {count:,} decoded images need {need / 2**30:,.1f} GiB of memory, and "
            f"{free / 2**30:,.1f} GiB are free. Save them as a data set of Hugging Face (data hf_dataset) or as files "
            "(data image_folder), which are read as they are needed"
        )
    return DataSource(_read_split(choice, train), _read_split(choice, held_out), choice.num_classes)


class ParquetImages:
    """Real images that decoded samples are compared with, in colour, opened on first use, not kept in memory.

    Args:
        paths: of the files.
        image_size: pixels on a side.
        column: that holds the images.

    Raises:
        UserError: naming file, row (from 0) and rule.
    """

    def __init__(self, paths: tuple[str, ...], image_size: int, column: str) -> None:
        self.paths = tuple(expanded(paths, SUFFIXES))
        self.wanted = Wanted(image_size, 3, enlarge=False, key="data.decoded_size", way_out="take it out")
        self.choice = ParquetData(
            train=self.paths, held_out=self.paths, image_size=image_size, num_classes=0, image_column=column
        )

    @cached_property
    def files(self) -> Files:
        found = _opened(self.choice, self.paths)
        if not sum(file.metadata.num_rows for _, file in found):
            raise UserError(f"{', '.join(self.paths)}: no rows; data.images needs at least one image")
        return found

    def __len__(self) -> int:
        return sum(file.metadata.num_rows for _, file in self.files)

    @cached_property
    def sha256(self) -> str:
        """Hash of the files, and of the column that is read."""
        return hashlib.sha256(f"{self.choice.image_column} {files_sha256(self.paths)}".encode()).hexdigest()

    def batches(self, size: int) -> Iterator[Tensor]:
        """All images in their order, (B, 3, H, W) uint8, `size` at a time."""
        images = (image for path, file in self.files for image in _images(self.choice, file, path, self.wanted))
        while batch := list(islice(images, size)):
            yield torch.from_numpy(np.stack(batch))

    def problems(self) -> Iterator[str]:
        """A message for each file that cannot be used."""
        for path in self.paths:
            yield from message_of(check_ends, self.choice, path, self.wanted)


def _read_split(choice: ParquetData, files: Files) -> ImageSet:
    count = sum(file.metadata.num_rows for _, file in files)
    if not count:
        raise UserError(f"{', '.join(path for path, _ in files)}: no rows; a split needs at least one image")
    wanted = Wanted.of(choice)
    classes = np.concatenate([_labels(choice, file, path) for path, file in files])
    pixels = np.empty((count, *wanted.shape), dtype=np.uint8)
    images = (image for path, file in files for image in _images(choice, file, path, wanted))
    for place, image in enumerate(images):
        pixels[place] = image
    return ImageSet(pixels, classes)


def file_problems(choice: ParquetData, generates: bool) -> Iterator[str]:
    """A message for each file that cannot be used: its columns, all labels, captions, and images at its ends."""
    for key in ("train", "held_out"):
        paths = expanded(getattr(choice, key), SUFFIXES)
        labels = []
        for path in paths:
            try:
                check_ends(choice, path, Wanted.of(choice))
                file = _open(choice, path)
                labels.append(_labels(choice, file, path))
                _texts(choice, [(path, file)])
            except UserError as error:
                yield str(error)
        if generates and key == "train" and len(labels) == len(paths):
            yield from absent_classes(np.concatenate(labels), choice.num_classes)


def _labels(choice: ParquetData, file: pq.ParquetFile, path: str) -> NDArray[np.int64]:
    """All labels of a file; all 0 where there are no classes."""
    if not choice.num_classes:
        return np.zeros(file.metadata.num_rows, dtype=np.int64)
    with _damage_reported(path, 0):
        column = file.read(columns=[choice.label_column]).column(choice.label_column)
    return labels_of(choice, path, column)


def _texts(choice: ParquetData, files: Files) -> Texts | None:
    """The captions of a split, if there are some. Raises UserError with all mistakes in them."""
    if choice.captions is None:
        return None
    _, name = caption_column(choice)
    reading = Reading()
    for path, file in files:
        with _damage_reported(path, 0):
            column = file.read(columns=[name]).column(name)
        read_column(choice, path, file.schema_arrow, column, reading)
    return reading.texts()


def image_problems(choice: ParquetData, generates: bool) -> Iterator[str]:
    """A message for each of the first three images of a file that cannot be used, by its header, and their number."""
    for path in expanded((*choice.train, *choice.held_out), SUFFIXES):
        with suppress(UserError):  # which `file_problems` reports
            file = _open(choice, path)
            yield from shortened(_header_problems(choice, file, path), path, file.metadata.num_rows)


def _header_problems(choice: ParquetData, file: pq.ParquetFile, path: str) -> Iterator[str]:
    """A message for each row whose image cannot be used; warns of images that EXIF alone turns."""
    wanted = Wanted.of(choice)
    by_exif = 0
    for row, cell in enumerate(_cells(choice, file, path)):
        try:
            by_exif += is_turned(opened(image_file(choice, cell), wanted))
        except ValueError as error:
            yield f"{path}, row {row}: {error}"
    if by_exif:
        log.warning(turned(path, by_exif, file.metadata.num_rows))


def check_ends(choice: ParquetData, path: str, wanted: Wanted) -> None:
    """Columns of a file, and the images of its first row and of the first of its last row group. Raises UserError."""
    file = _open(choice, path, buffer_bytes=_PAGE_BYTES)  # page by page: a row group may be large
    groups = sorted({0, file.num_row_groups - 1}) if file.metadata.num_rows else []
    for group in groups:
        # Read the first row of the group.
        first = sum(file.metadata.row_group(earlier).num_rows for earlier in range(group))
        with _damage_reported(path, first):
            batches = file.iter_batches(1, row_groups=[group], columns=[choice.image_column])
            cell = next(iter(batches)).column(0)[0].as_py()

        # Decode it.
        try:
            decode(image_file(choice, cell), wanted)
        except ValueError as error:
            raise UserError(f"{path}, row {first}: {error}") from None


def _open(choice: ParquetData, path: str, buffer_bytes: int = 0) -> pq.ParquetFile:
    # Read the footer.
    with named_where_unreadable(path):
        check_file(path)
    try:
        file = pq.ParquetFile(path, buffer_size=buffer_bytes)
    except (OSError, pa.ArrowException) as error:
        raise UserError(f"{path}: not a readable Parquet file: {error}") from None

    check_schema(choice, path, file.schema_arrow)
    return file


def _images(choice: ParquetData, file: pq.ParquetFile, path: str, wanted: Wanted) -> Iterator[NDArray[np.uint8]]:
    """(C, H, W) of each row."""
    for row, cell in enumerate(_cells(choice, file, path)):
        try:
            yield decode(image_file(choice, cell), wanted)
        except ValueError as error:
            raise UserError(f"{path}, row {row}: {error}") from None


def _cells(choice: ParquetData, file: pq.ParquetFile, path: str) -> Iterator[dict[str, Any] | None]:
    """The image column of a file, of as many rows as its footer declares."""
    first = 0
    for group in range(file.num_row_groups):
        batches = file.iter_batches(_ROWS_AT_A_TIME, row_groups=[group], columns=[choice.image_column])
        while True:
            with _damage_reported(path, first):
                batch = next(batches, None)
                if batch is None:
                    break
                cells = batch.column(0).to_pylist()
            yield from cells
            first += len(cells)
    if first != file.metadata.num_rows:
        raise UserError(f"{path}: {first} rows where its footer says {file.metadata.num_rows}; write the file again")


@contextmanager
def _damage_reported(path: str, first: int) -> Iterator[None]:
    """Raises UserError where rows from `first` on cannot be read."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise UserError(f"{path}, rows from {first} on: cannot be read: {error}; write the file again") from None
