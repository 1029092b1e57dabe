"""The parts of a cell's configuration that its figures depend on, key by key, to distinguish two runs of a row."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from functools import cache

from pydantic import JsonValue, ValidationError

from tread_bench.core.config.suite import Cell
from tread_bench.core.errors import UserError
from tread_bench.core.stored.conditions import by_file_name
from tread_bench.regression.compare import flat

# How often something is kept or measured, where the iterations come from, and what is measured apart.
_CHANGES_NO_QUALITY = (
    *("training.checkpoint_every", "training.snapshots", "training.budget", "training.budget.macs_of"),
    *("metrics.at", "metrics.batch"),
)
_MEASURED_APART = ("metrics.similarity_", "metrics.routed_")


def of_quality(config: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return what the trained network and its metrics depend on: dotted keys and their values."""
    whole = _whole(config).items()
    return {k: v for k, v in whole if k not in _CHANGES_NO_QUALITY and not k.startswith(_MEASURED_APART)}


def _whole(config: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    return _completed(json.dumps(config, sort_keys=True))


@cache
def _completed(config: str) -> dict[str, JsonValue]:
    """With the defaults of keys that are newer than the record; unchanged where this version cannot read it."""
    content = json.loads(config)
    with suppress(UserError, ValidationError):
        content = Cell.model_validate(content).model_dump(mode="json")
    return flat(by_file_name(content))
