"""Images in Parquet files, without torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from tread_bench.core.errors import UserError
from tread_bench.core.stored.data_paths import expanded, named_where_unreadable
from tread_bench.core.stored.foreign import check_file
from tread_bench.data.images.family import TableOptions, image_family

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile

SUFFIXES = (".parquet", ".pq")
_BUFFER_BYTES = 2**20  # read at a time: a row group may be large


class ParquetData(TableOptions):
    """Images in local Parquet files of Hugging Face's image schema (a struct of `bytes` and `path`, and a label)."""

    table: ClassVar[str] = "tread_bench.data.parquet.source:ParquetTable"

    name: Literal["parquet"] = "parquet"
    train: tuple[str, ...] = Field(
        min_length=1, description="Parquet files with the training images, folders of such files, or globs"
    )
    held_out: tuple[str, ...] = Field(min_length=1, description="the same with the held-out images")

    def paths(self, entries: Sequence[str]) -> list[str]:
        """Return the files, and those in folders and below. Raises UserError where a folder cannot be read."""
        return expanded(entries, SUFFIXES)

    def count(self, entries: Sequence[str]) -> int:
        """Return the number of rows that the files' footers declare. Raises UserError."""
        return sum(open_parquet(path).metadata.num_rows for path in self.paths(entries))


def open_parquet(path: str) -> ParquetFile:
    """Open a file, of which the footer is read. Raises UserError."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with named_where_unreadable(path):
        check_file(path)
    try:
        return pq.ParquetFile(path, buffer_size=_BUFFER_BYTES)
    except (OSError, pa.ArrowException) as error:
        raise UserError(f"{path}: not a readable Parquet file: {error}") from None


PARQUET = image_family(ParquetData)
