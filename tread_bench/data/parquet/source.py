"""Local Parquet files in Hugging Face's image schema: a struct column of `bytes` and `path`, and an integer label."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pyarrow as pa

from tread_bench.core.errors import UserError
from tread_bench.data.images.table import Cell, Table
from tread_bench.data.parquet.family import ParquetData, open_parquet

_ROWS_AT_A_TIME = 512


class ParquetTable(Table):
    """A file, whose images are read in the order of its rows; any other row costs those before it in its row group."""

    is_in_order = True

    def __init__(self, choice: ParquetData, path: str) -> None:
        self._file = open_parquet(path)
        about = self._file.metadata
        super().__init__(choice, path, self._file.schema_arrow, about.num_rows)
        groups = [about.row_group(number).num_rows for number in range(about.num_row_groups)]
        self._group_firsts = np.cumsum([0, *groups])
        self._first = 0  # row of the first of the cells
        self._cells: list[Cell] = []
        self._batches: Iterator[pa.RecordBatch] | None = None

    @property
    def ends(self) -> tuple[int, ...]:
        """The first row, and the first of the last row group."""
        return (0, int(self._group_firsts[-2])) if self.count else ()

    def column(self, name: str) -> pa.ChunkedArray:
        """Return all values of a column."""
        with self._damage_reported(0):
            return self._file.read(columns=[name]).column(name)

    def image(self, row: int) -> Cell:
        """Return the cell of an image."""
        # Rows that are not the next ones begin again at their row group.
        if self._batches is None or not self._first <= row <= self._first + len(self._cells):
            group = int(np.searchsorted(self._group_firsts, row, side="right")) - 1
            self._batches = self._read_from(group)
            self._first, self._cells = int(self._group_firsts[group]), []

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

    def _read_from(self, group: int) -> Iterator[pa.RecordBatch]:
        columns = [self.choice.image_column]
        for number in range(group, self._file.num_row_groups):
            yield from self._file.iter_batches(_ROWS_AT_A_TIME, row_groups=[number], columns=columns)

    @contextmanager
    def _damage_reported(self, first: int) -> Iterator[None]:
        """Raises UserError where rows from `first` on cannot be read."""
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            rule = f"rows from {first} on: cannot be read: {error}; write the file again"
            raise UserError(f"{self.path}, {rule}") from None
