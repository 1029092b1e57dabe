"""JSON documents, place by place."""

from __future__ import annotations

import copy

NAN, INFINITY, HALF = float("nan"), float("inf"), "\ud800"
UNFIT = (NAN, -INFINITY, HALF, {HALF: 1})  # for any place at all: JSON does not have them
KINDS = (None, True, -1, 0.5, "", "text", [], [[]], {}, {"a": [None]})


def fields(value, at=()):
    """Places of a document; of a list its first entry stands for all."""
    yield at
    if isinstance(value, dict):
        for key, part in value.items():
            yield from fields(part, (*at, key))
    elif isinstance(value, list) and value:
        yield from fields(value[0], (*at, 0))


def changed(document, at, value):
    """A copy with another value at one place."""
    if not at:
        return value
    copied = copy.copy(document)
    copied[at[0]] = changed(document[at[0]], at[1:], value)
    return copied
