"""Local Parquet files in Hugging Face's image schema: a struct column of `bytes` and `path`, and an integer label.

For training, every image is decoded once into one uint8 array: N * C * H * W bytes stay in memory (CIFAR-10: 184 MB),
plus 512 encoded images while reading; the cells of a run share the decoded array (`decoded.py`). Real images that
samples of latents are compared with are decoded as they are needed.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from tread_bench.core.errors import UserError
from tread_bench.data.check import message_of
from tread_bench.data.parquet.decoded import kept_or_decoded
from tread_bench.data.parquet.family import ParquetData
from tread_bench.data.source import DataSource, ImageSet, files_sha256

_ROWS_AT_A_TIME = 512
_PAGE_BYTES = 2**16  # read at a time where a few rows are looked at
_FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF")  # pixels alone: EPS would start Ghostscript
_MODES = {1: ("L", ("L", "1")), 3: ("RGB", ("RGB", "L", "1", "P", "CMYK", "YCbCr"))}  # no alpha: it would be lost


def read_parquet(choice: ParquetData, decoded: Path | None = None) -> DataSource:
    """Both splits, read from `decoded` if they were decoded before. Raises UserError naming file, row (from 0)
    and rule.
    """
    train_files = [_open(choice, path) for path in choice.train]
    held_out_files = [_open(choice, path) for path in choice.held_out]

    def decode() -> DataSource:
        train = _read_split(choice, train_files, choice.train)
        held_out = _read_split(choice, held_out_files, choice.held_out)
        return DataSource(train, held_out, choice.num_classes)

    return decode() if decoded is None else kept_or_decoded(choice, decoded, decode)


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
        self.choice = ParquetData(
            train=paths, held_out=paths, image_size=image_size, num_classes=0, image_column=column
        )

    @cached_property
    def files(self) -> list[pq.ParquetFile]:
        found = [_open(self.choice, path) for path in self.choice.train]
        if not sum(file.metadata.num_rows for file in found):
            raise UserError(f"{', '.join(self.choice.train)}: no rows; data.images needs at least one image")
        return found

    def __len__(self) -> int:
        return sum(file.metadata.num_rows for file in self.files)

    @cached_property
    def sha256(self) -> str:
        """Hash of the files, and of the column that is read."""
        return hashlib.sha256(f"{self.choice.image_column} {files_sha256(self.choice.train)}".encode()).hexdigest()

    def batches(self, size: int) -> Iterator[Tensor]:
        """All images in their order, (B, 3, H, W) uint8, `size` at a time."""
        pairs = zip(self.files, self.choice.train, strict=True)
        rows = (image for file, path in pairs for image, _ in _rows(self.choice, file, path, "data.decoded_size"))
        while batch := list(islice(rows, size)):
            yield torch.from_numpy(np.stack(batch))

    def problems(self) -> Iterator[str]:
        """A message for each file that cannot be used."""
        for path in self.choice.train:
            yield from message_of(check_ends, self.choice, path, "data.decoded_size")


def _read_split(choice: ParquetData, files: list[pq.ParquetFile], paths: tuple[str, ...]) -> ImageSet:
    count = sum(file.metadata.num_rows for file in files)
    if not count:
        raise UserError(f"{', '.join(paths)}: no rows; a split needs at least one image")
    pixels = np.empty((count, choice.channels, choice.image_size, choice.image_size), dtype=np.uint8)
    classes = np.zeros(count, dtype=np.int64)
    place = 0
    for file, path in zip(files, paths, strict=True):
        for image, label in _rows(choice, file, path):
            pixels[place] = image
            classes[place] = label
            place += 1
    return ImageSet(pixels, classes)


def file_problems(choice: ParquetData, generates: bool) -> Iterator[str]:
    """A message for each file that cannot be used."""
    for path in (*choice.train, *choice.held_out):
        yield from message_of(check_ends, choice, path)


def check_ends(choice: ParquetData, path: str, size_key: str = "data.image_size") -> None:
    """Columns of a file, and its first row and the first of its last row group. Raises UserError."""
    file = _open(choice, path, buffer_bytes=_PAGE_BYTES)  # page by page: a row group may be large
    groups = sorted({0, file.num_row_groups - 1}) if file.metadata.num_rows else []
    for group in groups:
        # Read the first row of the group.
        first = sum(file.metadata.row_group(earlier).num_rows for earlier in range(group))
        with _damage_reported(path, first):
            batches = file.iter_batches(1, row_groups=[group], columns=_columns(choice))
            record = next(iter(batches)).to_pylist()[0]

        # Decode it.
        try:
            _decode(choice, record[choice.image_column], size_key)
            _label(choice, record)
        except ValueError as error:
            raise UserError(f"{path}, row {first}: {error}") from None


def _open(choice: ParquetData, path: str, buffer_bytes: int = 0) -> pq.ParquetFile:
    # Read the footer.
    try:
        file = pq.ParquetFile(path, buffer_size=buffer_bytes)
    except FileNotFoundError:
        raise UserError(f"{path}: no such file (looked in {Path.cwd()})") from None
    except (OSError, pa.ArrowException) as error:
        raise UserError(f"{path}: not a readable Parquet file: {error}") from None

    # Each column exists once, and has the right type.
    schema = file.schema_arrow
    for column, key in zip(_columns(choice), ("image_column", "label_column"), strict=False):
        if column not in schema.names:
            raise UserError(f"{path}: no column {column!r}; it has {', '.join(schema.names)}: set data.{key}")
        count = schema.names.count(column)
        if count > 1:
            raise UserError(f"{path}: {count} columns are called {column!r}; give each column its own name")
    kind = schema.field(choice.image_column).type
    if not _holds_images(kind):
        raise UserError(
            f"{path}: column {choice.image_column!r} is {kind}, not Hugging Face's image schema "
            "struct<bytes: binary, path: string>"
        )
    if choice.num_classes:
        kind = schema.field(choice.label_column).type
        if not pa.types.is_integer(kind):
            raise UserError(f"{path}: column {choice.label_column!r} is {kind}, not integers: set data.label_column")
    return file


def _holds_images(kind: pa.DataType) -> bool:
    """Whether a column is a struct with one field `bytes` of bytes."""
    if not pa.types.is_struct(kind):
        return False
    place = kind.get_field_index("bytes")
    if place < 0:
        return False
    return pa.types.is_binary(kind[place].type) or pa.types.is_large_binary(kind[place].type)


def _columns(choice: ParquetData) -> list[str]:
    return [choice.image_column, choice.label_column] if choice.num_classes else [choice.image_column]


def _rows(
    choice: ParquetData, file: pq.ParquetFile, path: str, size_key: str = "data.image_size"
) -> Iterator[tuple[NDArray[np.uint8], int]]:
    for row, record in enumerate(_records(choice, file, path)):
        try:
            yield _decode(choice, record[choice.image_column], size_key), _label(choice, record)
        except ValueError as error:
            raise UserError(f"{path}, row {row}: {error}") from None


def _records(choice: ParquetData, file: pq.ParquetFile, path: str) -> Iterator[dict[str, Any]]:
    """The rows of a file, as many as its footer declares."""
    first = 0
    for group in range(file.num_row_groups):
        batches = file.iter_batches(_ROWS_AT_A_TIME, row_groups=[group], columns=_columns(choice))
        while True:
            with _damage_reported(path, first):
                batch = next(batches, None)
                if batch is None:
                    break
                records = batch.to_pylist()
            yield from records
            first += len(records)
    if first != file.metadata.num_rows:
        raise UserError(f"{path}: {first} rows where its footer says {file.metadata.num_rows}; write the file again")


@contextmanager
def _damage_reported(path: str, first: int) -> Iterator[None]:
    """Raises UserError where rows from `first` on cannot be read."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise UserError(f"{path}, rows from {first} on: cannot be read: {error}; write the file again") from None


def _decode(choice: ParquetData, cell: dict[str, Any] | None, size_key: str) -> NDArray[np.uint8]:
    """(C, H, W) uint8."""
    if not cell or not cell["bytes"]:
        raise ValueError(f"{choice.image_column} has no image bytes; images must be stored inside the file")
    side = choice.image_size
    target, accepted = _MODES[choice.channels]

    # Read the header, and check size and mode before any pixel is decoded.
    with _decoder_errors_reported():
        image = Image.open(io.BytesIO(cell["bytes"]), formats=_FORMATS)
    if image.size != (side, side):
        raise ValueError(f"image of {image.width}x{image.height} pixels where {size_key} is {side}")
    if image.mode not in accepted:
        raise ValueError(f"image mode {image.mode}; data.channels {choice.channels} takes {', '.join(accepted)}")

    # Decode the pixels.
    with _decoder_errors_reported():
        array = np.asarray(image.convert(target))
    return array.reshape(side, side, choice.channels).transpose(2, 0, 1)


@contextmanager
def _decoder_errors_reported() -> Iterator[None]:
    """Raises ValueError for whatever a decoder raises: damaged bytes may raise any exception."""
    try:
        yield
    except Exception as error:
        raise ValueError(f"not a readable image: {error}") from None


def _label(choice: ParquetData, record: dict[str, Any]) -> int:
    if not choice.num_classes:
        return 0
    label = record[choice.label_column]
    if isinstance(label, bool) or not isinstance(label, int) or not 0 <= label < choice.num_classes:
        raise ValueError(f"label {label!r} where data.num_classes allows 0 to {choice.num_classes - 1}")
    return label
