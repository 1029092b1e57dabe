"""Images in tables of Hugging Face's image schema: a struct of `bytes` and `path`, and an integer label.

A kind of table says how a column and a cell are read (`Table`); the rest is the same for all of them.
"""

from __future__ import annotations

import hashlib
import io
import json
from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tread_bench.core.describe.plugins import named
from tread_bench.core.errors import UserError
from tread_bench.core.stored.data_files import content_sha256
from tread_bench.data.captions.family import CLASS
from tread_bench.data.captions.texts import Texts, captions_at
from tread_bench.data.images.family import TableOptions, read_whole

_FEATURES = b"huggingface"  # key of a schema's metadata, names of labels among them

Cell = dict[str, Any] | None  # `bytes` and `path` of an image


class Table:
    """A file or data set with a column of images.

    Args:
        schema: of its columns.
        count: rows.

    Raises:
        UserError: a column that is read is missing or has another type; from its methods, where it is damaged.
    """

    is_in_order = False  # whether images are far cheaper to read in their order

    def __init__(self, choice: Any, path: str, schema: pa.Schema, count: int) -> None:
        check_schema(choice, path, schema)
        self.choice = choice
        self.path = path
        self.schema = schema
        self.count = count

    def column(self, name: str) -> pa.ChunkedArray:
        """Return all values of a column."""
        raise NotImplementedError

    def image(self, row: int) -> Cell:
        """Return the cell of an image."""
        raise NotImplementedError


class TableImages:
    """The rows of tables, one after the other.

    Raises:
        UserError: naming table, row (from 0) and rule.
    """

    def __init__(self, choice: TableOptions, entries: Sequence[str]) -> None:
        self.choice = choice
        kind = named(choice.table)
        self.tables: list[Table] = [kind(choice, path) for path in choice.paths(entries)]
        self._last = np.cumsum([table.count for table in self.tables]).tolist()  # rows up to the end of each table
        self.is_in_order = self.tables[0].is_in_order
        if not self._last[-1]:
            raise UserError(f"{', '.join(choice.paths(entries))}: no rows; a split needs at least one image")

        # Labels and captions; images stay on disk.
        self.classes = np.concatenate([_labels(choice, table) for table in self.tables])
        self.texts = None
        if choice.captions is not None:
            each: list[list[str]] = []
            for table in self.tables:
                each += _captions(choice, table)
            self.texts = Texts(each)

    @cached_property
    def sha256(self) -> str:
        """Hash of the tables' files, and of the columns that are read."""
        read = [self.choice.image_column, self.choice.label_column, self.choice.num_classes]
        found = [content_sha256(read_whole(table.path)) for table in self.tables]
        return hashlib.sha256(repr((read, found)).encode()).hexdigest()

    def open(self, item: int) -> BinaryIO:
        """Read an image file. Raises ValueError."""
        table, row = self._place(item)
        cell = table.image(row)
        if not cell or not cell["bytes"]:
            column = self.choice.image_column
            raise ValueError(f"{column} has no image bytes; images must be stored inside the file")
        return io.BytesIO(cell["bytes"])

    def name(self, item: int) -> str:
        """Table and row of an image."""
        table, row = self._place(item)
        return f"{table.path}, row {row}"

    @property
    def ends(self) -> list[int]:
        """The first image of each table, and the last of all where it is cheap to read."""
        tables = zip(self.tables, self._last, strict=True)
        firsts = [last - table.count for table, last in tables if table.count]
        return firsts if self.is_in_order else sorted({*firsts, len(self.classes) - 1})

    def _place(self, item: int) -> tuple[Table, int]:
        """The table of an image, and its row there."""
        number = bisect_right(self._last, item)
        table = self.tables[number]
        return table, item - self._last[number] + table.count


def table_splits(choice: Any) -> tuple[TableImages, TableImages | None]:
    """Training and held-out images. Raises UserError naming table, row (from 0) and rule."""
    train = TableImages(choice, choice.train)
    return train, TableImages(choice, choice.held_out) if choice.held_out else None


def check_schema(choice: TableOptions, path: str, schema: pa.Schema) -> None:
    """Raise UserError unless each column that is read exists once and has the right type."""
    read = {"image_column": choice.image_column}
    if choice.num_classes:
        read["label_column"] = choice.label_column
    if choice.captions is not None:
        read |= dict([caption_column(choice)])
    for key, column in read.items():
        if (count := schema.names.count(column)) != 1:
            rule = f"it has {', '.join(schema.names)}: set data.{key}, or give each column its own name"
            raise UserError(f"{path}: {count or 'no'} columns are called {column!r}; {rule}")
    kind = schema.field(choice.image_column).type
    has_bytes = pa.types.is_struct(kind) and kind.get_field_index("bytes") >= 0
    if not has_bytes or str(kind.field("bytes").type) not in ("binary", "large_binary"):
        raise UserError(
            f"{path}: column {choice.image_column!r} is {kind}, not Hugging Face's image schema "
            "struct<bytes: binary, path: string>"
        )
    if choice.num_classes:
        kind = schema.field(choice.label_column).type
        if not pa.types.is_integer(kind):
            raise UserError(f"{path}: column {choice.label_column!r} is {kind}, not integers: set data.label_column")


def _labels(choice: TableOptions, table: Table) -> NDArray[np.int64]:
    """All labels of a table, (N,); all 0 without classes. Raises UserError naming the first row with a wrong one."""
    if not choice.num_classes:
        return np.zeros(table.count, dtype=np.int64)
    column = table.column(choice.label_column)
    labels: NDArray[np.int64] = column.cast(pa.int64(), safe=False).fill_null(-1).to_numpy()
    wrong = np.flatnonzero((labels < 0) | (labels >= choice.num_classes))
    if len(wrong):
        row = int(wrong[0])
        rule = f"data.num_classes allows 0 to {choice.num_classes - 1}"
        raise UserError(f"{table.path}, row {row}: label {column[row].as_py()} where {rule}")
    return labels


def caption_column(choice: TableOptions) -> tuple[str, str]:
    """Return the key of a suite that names the column from which captions are read, and the column."""
    assert choice.captions is not None
    if choice.captions.template is not None:
        return "label_column", choice.label_column
    return "captions.column", choice.captions.column


def _captions(choice: TableOptions, table: Table) -> list[list[str]]:
    """The captions of a table's rows. Raises UserError where a row has none, or a label without a name."""
    assert choice.captions is not None
    template = choice.captions.template
    _, name = caption_column(choice)
    names = [] if template is None else _label_names(table.path, table.schema, name)
    captions = []
    for row, value in enumerate(table.column(name).to_pylist()):
        where = f"{table.path}, row {row}, column {name!r}"
        if template is None:
            captions.append(captions_at(where, value))
        elif isinstance(value, int) and 0 <= value < len(names):
            captions.append([template.replace(CLASS, names[value])])
        else:
            raise UserError(f"{where}: label {value} where the file names {len(names)} classes")
    return captions


def _label_names(path: str, schema: pa.Schema, name: str) -> list[str]:
    """Names of the labels in a column. Raises UserError where there are none."""
    try:
        about = json.loads((schema.metadata or {})[_FEATURES])
        names = about["info"]["features"][name]["names"]
    except (KeyError, TypeError, ValueError, RecursionError):
        names = None
    if not isinstance(names, list) or not all(isinstance(one, str) and one.strip() for one in names):
        raise UserError(
            f"{path}: no names of the classes in column {name!r}, as `ClassLabel` of Hugging Face's `datasets` keeps "
            "them, and data.captions.template needs them; write the captions into a column"
        )
    return names
