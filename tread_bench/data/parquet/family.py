"""Images in Parquet files, without torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from tread_bench.core.describe.data_sources import DataFamily, Place, always_comparable
from tread_bench.core.stored.data_paths import expanded
from tread_bench.data.captions.family import caption_files
from tread_bench.data.images.family import TableOptions, is_flipped

SUFFIXES = (".parquet", ".pq")


class ParquetData(TableOptions):
    """Images in local Parquet files of Hugging Face's image schema (a struct of `bytes` and `path`, and a label)."""

    name: Literal["parquet"] = "parquet"
    train: tuple[str, ...] = Field(
        min_length=1, description="Parquet files with the training images, folders of such files, or globs"
    )
    held_out: tuple[str, ...] = Field(min_length=1, description="the same with the held-out images")


def _files(options: ParquetData, generates: bool) -> Iterator[tuple[Place, str]]:
    for key in ("train", "held_out"):
        for index, entry in enumerate(getattr(options, key)):
            yield from (((key, index), file) for file in expanded([entry], SUFFIXES))
    yield from caption_files(options.captions)


def _counts(options: ParquetData) -> tuple[int, int] | None:
    """Rows of both splits, by the files' footers; None where a file cannot be read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        train, held_out = (
            sum(pq.read_metadata(path).num_rows for path in expanded(paths, SUFFIXES))
            for paths in (options.train, options.held_out)
        )
    except (OSError, pa.ArrowException):
        return None
    return train, held_out


PARQUET = DataFamily(
    name="parquet",
    options=ParquetData,
    builder="tread_bench.data.parquet.source:read_parquet",
    files=_files,
    not_comparable=always_comparable,
    extractor=None,
    counts=_counts,
    check_files="tread_bench.data.parquet.source:file_problems",
    check_all="tread_bench.data.parquet.source:image_problems",
    is_flipped=is_flipped,
)
