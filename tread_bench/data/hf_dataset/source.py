"""Local data sets of Hugging Face's `datasets`. See `images/encoded.py` for when images are decoded."""

from __future__ import annotations

import pyarrow as pa

from tread_bench.core.errors import UserError
from tread_bench.data.hf_dataset.family import HfDatasetData, open_dataset
from tread_bench.data.images.table import Cell, Table


class DatasetTable(Table):
    """A data set, whose rows are read one by one. Raises UserError where it is damaged."""

    def __init__(self, choice: HfDatasetData, path: str) -> None:
        self._rows = open_dataset(path).with_format("arrow")
        super().__init__(choice, path, self._rows.features.arrow_schema, len(self._rows))
        try:
            self._rows.data.validate(full=True)
        except pa.ArrowException as error:
            raise UserError(f"{path}: cannot be read: {error}; write it again") from None
        self._images = self._rows.select_columns([choice.image_column])

    def column(self, name: str) -> pa.ChunkedArray:
        """Return all values of a column."""
        return self._rows.select_columns([name])[:].column(0)

    def image(self, row: int) -> Cell:
        """Return the cell of an image."""
        cell: Cell = self._images[row].column(0)[0].as_py()
        return cell
