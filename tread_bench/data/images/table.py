"""Columns of Hugging Face's image schema: a struct of `bytes` and `path`, and an integer label."""

from __future__ import annotations

import io
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tread_bench.core.errors import UserError
from tread_bench.data.captions.tables import caption_column, check_captions
from tread_bench.data.images.family import TableOptions


def check_schema(choice: TableOptions, path: str, schema: pa.Schema) -> None:
    """Raise UserError unless each column that is read exists once and has the right type."""
    read = {"image_column": choice.image_column}
    if choice.num_classes:
        read["label_column"] = choice.label_column
    if choice.captions is not None:
        read |= dict([caption_column(choice)])
    for key, column in read.items():
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
    if choice.captions is not None:
        check_captions(choice, path, schema)


def _holds_images(kind: pa.DataType) -> bool:
    """Whether a column is a struct with one field `bytes` of bytes."""
    if not pa.types.is_struct(kind):
        return False
    place = kind.get_field_index("bytes")
    if place < 0:
        return False
    return pa.types.is_binary(kind[place].type) or pa.types.is_large_binary(kind[place].type)


def image_file(choice: TableOptions, cell: dict[str, Any] | None) -> BinaryIO:
    """Read an image file in a cell of the image column. Raises ValueError."""
    if not cell or not cell["bytes"]:
        raise ValueError(f"{choice.image_column} has no image bytes; images must be stored inside the file")
    return io.BytesIO(cell["bytes"])


def labels_of(choice: TableOptions, path: str, column: pa.ChunkedArray) -> NDArray[np.int64]:
    """Return all labels of a file, (N,). Raises UserError naming the first row with a label out of range."""
    labels: NDArray[np.int64] = column.cast(pa.int64(), safe=False).fill_null(-1).to_numpy()
    wrong = np.flatnonzero((labels < 0) | (labels >= choice.num_classes))
    if len(wrong):
        row = int(wrong[0])
        label = column[row].as_py()
        raise UserError(f"{path}, row {row}: label {label} where data.num_classes allows 0 to {choice.num_classes - 1}")
    return labels
