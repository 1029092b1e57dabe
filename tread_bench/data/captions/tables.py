"""Captions in a column of a table, or made of the names that Hugging Face's libraries keep of its labels."""

from __future__ import annotations

import json

import pyarrow as pa

from tread_bench.core.errors import UserError
from tread_bench.data.captions.family import CLASS
from tread_bench.data.captions.texts import captions_at
from tread_bench.data.images.family import TableOptions

_FEATURES = b"huggingface"  # key of a schema's metadata


def caption_column(choice: TableOptions) -> tuple[str, str]:
    """Return the key of a suite that names the column from which captions are read, and the column."""
    assert choice.captions is not None
    if choice.captions.template is not None:
        return "label_column", choice.label_column
    return "captions.column", choice.captions.column


def read_column(choice: TableOptions, path: str, schema: pa.Schema, column: pa.ChunkedArray) -> list[list[str]]:
    """Return the captions of a file's rows.

    Args:
        column: the one that `caption_column` names.

    Raises:
        UserError: a row has none, or a label without a name.
    """
    assert choice.captions is not None
    template = choice.captions.template
    _, name = caption_column(choice)
    names = [] if template is None else _label_names(path, schema, name)
    captions = []
    for row, value in enumerate(column.to_pylist()):
        where = f"{path}, row {row}, column {name!r}"
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
