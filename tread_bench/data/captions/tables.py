"""Captions in a column of a table, or made of the names that Hugging Face's libraries keep of its labels."""

from __future__ import annotations

import json

import pyarrow as pa

from tread_bench.core.errors import UserError
from tread_bench.data.captions.family import CLASS
from tread_bench.data.captions.texts import Reading, values_at
from tread_bench.data.images.family import TableOptions

_FEATURES = b"huggingface"  # key of a schema's metadata


def caption_column(choice: TableOptions) -> tuple[str, str]:
    """Return the key of a suite that names the column from which captions are read, and the column."""
    assert choice.captions is not None
    if choice.captions.template is not None:
        return "label_column", choice.label_column
    return "captions.column", choice.captions.column


def check_captions(choice: TableOptions, path: str, schema: pa.Schema) -> None:
    """Raise UserError unless that column, which is there, holds text, lists of text, or labels with names."""
    assert choice.captions is not None
    key, name = caption_column(choice)
    if choice.captions.template is not None:
        _label_names(path, schema, name)
        return
    kind = schema.field(name).type
    if not _holds_text(kind):
        raise UserError(f"{path}: column {name!r} is {kind}, neither text nor lists of text: set data.{key}")


def _holds_text(kind: pa.DataType) -> bool:
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        kind = kind.value_type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def read_column(choice: TableOptions, path: str, schema: pa.Schema, column: pa.ChunkedArray, reading: Reading) -> None:
    """Add the captions of a file's rows.

    Args:
        column: the one that `caption_column` names.

    Raises:
        UserError: the file is damaged.
    """
    # Nothing of a damaged file is read.
    assert choice.captions is not None
    template = choice.captions.template
    _, name = caption_column(choice)
    try:
        column.validate(full=True)
    except pa.ArrowException as error:
        raise UserError(f"{path}: column {name!r} cannot be read: {error}; write the file again") from None

    # Rows, whose labels become captions where a template says so.
    names = _label_names(path, schema, name) if template else []
    for row, value in enumerate(column.to_pylist()):
        where = f"{path}, row {row}, column {name!r}"
        if template is None:
            reading.add(values_at(where, value), f"{where}: no caption")
        elif isinstance(value, int) and 0 <= value < len(names):
            reading.add([(where, template.replace(CLASS, names[value]))], "")
        else:
            reading.add([], f"{where}: label {value} where the file names {len(names)} classes")


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
