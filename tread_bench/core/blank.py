"""A record before anything came of its cell."""

from __future__ import annotations

from typing import Any

from tread_bench.core.conditions import conditions
from tread_bench.core.config import Cell
from tread_bench.core.records import Record
from tread_bench.core.routes import format_routes


def blank_record(about: dict[str, Any], plan: dict[str, Any], **fields: Any) -> Record:
    """What was asked and under which conditions; `status` failed until `fields` say otherwise.

    Args:
        about: a cell's cell.json; plan: the run's plan.json.
    """
    cell = Cell.model_validate(about["config"])
    family, spec = cell.backbone.family(), cell.backbone.spec(cell.data)
    routes = family.resolve(spec, cell.routes, cell.selector)
    known = {
        "status": "failed",
        "family": family.name,
        "method": cell.method.name,
        "routes": format_routes(routes),
        "selector": cell.selector if routes else "",
        "num_blocks": family.num_blocks(spec),
        "conditions": conditions(plan),
        **{name: about[name] for name in ("cell", "suite", "row", "seed", "reference", "backbone", "config")},
    }
    return Record(**{**known, **fields})
