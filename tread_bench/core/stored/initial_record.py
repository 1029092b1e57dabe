"""The record of a cell before it has any results."""

from __future__ import annotations

from typing import Any

from tread_bench.core.describe.routes import format_routes
from tread_bench.core.stored.documents import CellRequest, RunPlan
from tread_bench.core.stored.records import Record

_REQUESTED = ("cell", "suite", "row", "seed", "reference", "role", "backbone", "config")


def initial_record(request: CellRequest, plan: RunPlan, **fields: Any) -> Record:
    """Create a record of what was requested, under which conditions; `status` is failed unless `fields` say otherwise.

    Args:
        request: the cell's cell.json.
        plan: the run's plan.json.
    """
    cell = request.configuration
    family, spec = cell.backbone.family(), cell.backbone.spec(cell.data)
    routes = family.resolve(spec, cell.routes, cell.selector)
    known = {
        "status": "failed",
        "family": family.name,
        "method": cell.method.name,
        "routes": format_routes(routes),
        "selector": cell.selector if routes else "",
        "num_blocks": family.num_blocks(spec),
        "conditions": plan.conditions,
        "tuning": plan.tuning.get(request.row),  # a tuning cell's row has a name of its own
        "equal_time": plan.equal_time.get(request.cell),
        **{name: getattr(request, name) for name in _REQUESTED},
    }
    return Record(**{**known, **fields})
