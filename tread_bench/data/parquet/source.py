"""Local Parquet files in Hugging Face's image schema: a struct column of `bytes` and `path`, and an integer label."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from tread_bench.core.errors import UserError
from tread_bench.data.images.table import Cell, Table
from tread_bench.data.parquet.family import ParquetData, open_parquet

_ROWS_AT_A_TIME = 512


class ParquetTable(Table):
    """A file, whose images are read in the order of its rows; any other row costs those before it."""

    is_in_order = True

    def __init__(self, choice: ParquetData, path: str) -> None:
        self._file = open_parquet(path)
        super().__init__(choice, path, self._file.schema_arrow, self._file.metadata.num_rows)
        self._first = 0  # row of the first of the cells
        self._cells: list[Cell] = []
        self._batches: Iterator[pa.RecordBatch] | None = None

    def column(self, name: str) -> pa.ChunkedArray:
        """Return all values of a column."""
        with self._damage_reported(0):
            column = self._file.read(columns=[name]).column(name)
            column.validate(full=True)
        return column

    def image(self, row: int) -> Cell:
        """Return the cell of an image."""
        # An earlier row than the last one begins again at the first.
        if self._batches is None or row < self._first:
            self._batches = self._file.iter_batches(_ROWS_AT_A_TIME, columns=[self.choice.image_column])
            self._first, self._cells = 0, []

        # Up to the batch that has it.
        while row >= self._first + len(self._cells):
            self._first += len(self._cells)
            with self._damage_reported(self._first):
                batch = next(self._batches, None)
                self._cells = [] if batch is None else batch.column(0).to_pylist()
            if batch is None:
                rule = f"{self._first} rows where its footer says {self.count}; write the file again"
                raise UserError(f"{self.path}: {rule}")
        return self._cells[row - self._first]

    @contextmanager
    def _damage_reported(self, first: int) -> Iterator[None]:
        """Raises UserError where rows from `first` on cannot be read."""
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            rule = f"rows from {first} on: cannot be read: {error}; write the file again"
            raise UserError(f"{self.path}, {rule}") from None
