"""`profile --config`: a `config.json` of diffusers, and what its transformer costs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tread_bench.core.describe.dialects import read_routes
from tread_bench.core.describe.routes import format_routes
from tread_bench.core.errors import UserError
from tread_bench.core.numbers.costs import figures_of
from tread_bench.core.stored.foreign import read_file
from tread_bench.core.stored.records import CostFigures

_MOST_BYTES = 2**24
_WAY_OUT = "name the config.json of a transformer (of a pipeline, the one in its folder transformer)"


def count_file(
    path: Path, routes: Sequence[str], image_size: int | None, text_tokens: int | None
) -> tuple[CostFigures, dict[str, Any]]:
    """Return the cost of the network that a file describes, and what was counted, as JSON values. Raises UserError."""
    config = _read(path)
    try:
        read = [route for text in routes for route in read_routes(text)]
    except ValueError as error:
        raise UserError(str(error)) from None

    from tread_bench.measure.diffusers_cost import count_config

    try:
        found = count_config(config, read, image_size, text_tokens)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    cost = figures_of(found.routed, found.dense, found.tokens_per_block, found.image_tokens)
    return cost, {
        "backbone": found.name,
        "dense_train_step_macs": found.dense.train_step,
        "routes": format_routes(found.routes),
        "image_size": found.image_size,
        "channels": found.channels,
        "image_tokens": found.image_tokens,
        "text_tokens": found.text_tokens,
        "ignored_keys": list(found.ignored),
    }


def _read(path: Path) -> dict[str, Any]:
    """The configuration. Raises UserError."""
    try:
        config = json.loads(read_file(path, _MOST_BYTES))
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}); {_WAY_OUT}") from None
    except (ValueError, RecursionError):
        raise UserError(f"{path} is not JSON; {_WAY_OUT}") from None
    if not isinstance(config, dict) or not isinstance(config.get("_class_name"), str):
        raise UserError(f"{path} has no _class_name; {_WAY_OUT}")
    return config
