"""Images in Parquet files, without torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from tread_bench.core.config.base import Int
from tread_bench.core.data_sources import DataFamily, DataOptions, Place, always_comparable

_LABEL_BYTES = 8


class ParquetData(DataOptions):
    """Images in local Parquet files of Hugging Face's image schema (a struct of `bytes` and `path`, and a label)."""

    name: Literal["parquet"] = "parquet"
    train: tuple[str, ...] = Field(min_length=1, description="Parquet files with the training images")
    held_out: tuple[str, ...] = Field(min_length=1, description="Parquet files with the held-out images")
    image_size: Int = Field(ge=1, description="side of the images in pixels; images of another size are an error")
    channels: Literal[1, 3] = 3
    num_classes: Int = Field(ge=0)
    image_column: str = "image"
    label_column: str = "label"
    horizontal_flip: bool = Field(False, description="mirror half of the training images, drawn by sample index")


def _files(options: ParquetData, generates: bool) -> Iterator[tuple[Place, str]]:
    yield from ((("train", i), file) for i, file in enumerate(options.train))
    yield from ((("held_out", i), file) for i, file in enumerate(options.held_out))


def _is_flipped(options: ParquetData) -> bool:
    return options.horizontal_flip


def decoded_bytes(options: ParquetData) -> int:
    """Of both splits with their labels, by the files' footers; 0 where a file cannot be read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        count = sum(pq.read_metadata(path).num_rows for path in (*options.train, *options.held_out))
    except (OSError, pa.ArrowException):
        return 0
    return count * (options.channels * options.image_size**2 + _LABEL_BYTES)


PARQUET = DataFamily(
    name="parquet",
    options=ParquetData,
    builder="tread_bench.data.parquet.source:read_parquet",
    files=_files,
    not_comparable=always_comparable,
    extractor=None,
    check_files="tread_bench.data.parquet.source:file_problems",
    is_flipped=_is_flipped,
    decoded_bytes=decoded_bytes,
)
