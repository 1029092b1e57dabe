"""`plan`: what a suite requests, without training."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tread_bench.core.numbers.cell_costs import cell_cost
from tread_bench.services.hours import Pace, add_hours, pace_of
from tread_bench.suite.decidable import obstacles
from tread_bench.suite.files import Look
from tread_bench.suite.load import find_suite, load_plan
from tread_bench.suite.plan import Plan, plan_table, state_bytes

if TYPE_CHECKING:
    from tread_bench.services.detect import Detection, DetectRequest

_MOMENT_BYTES = 4  # per parameter of a matrix that Muon changes, which has one moment instead of two


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A plan with what it costs.

    Args:
        rows: a row of figures per row of the suite.
        missing: files that it needs, each as a message.
        obstacles: what keeps it from a decision on routes, each as a message.
        hours: device-hours at `pace`; None: no step time was given.
        detection: how many seeds find a difference; None: that was not requested.
    """

    plan: Plan
    rows: list[dict[str, Any]]
    missing: list[str]
    obstacles: list[str]
    pace: Pace | None
    hours: float | None
    detection: Detection | None


def plan_suite(
    name: str,
    overrides: list[str],
    request: DetectRequest | None = None,
    step_time: str | None = None,
    data_root: Path | None = None,
) -> Planned:
    """Plan a suite; files that are there are checked, others are listed.

    Args:
        request: asks how many seeds find a difference.
        step_time: milliseconds, or a run that measured them, for the time that the suite takes.

    Raises:
        UserError: the suite is wrong, or what was requested cannot be computed of it.
    """
    # Costs and hours.
    path = find_suite(name)
    plan = load_plan(path, overrides, data_root=data_root, look=Look.HEADERS, allows_missing=True)
    rows = plan_table(plan, cell_cost)
    add_state(rows, plan)
    pace = None if step_time is None else pace_of(step_time, plan, rows)
    hours = None if pace is None else add_hours(rows, plan, pace)

    # Seeds.
    detection = None
    if request is not None:
        from tread_bench.services.detect import detect  # needs scipy, which takes longer to load than a plan to show

        detection = detect(plan, request)
    missing = [str(problem) for problem in plan.missing]
    return Planned(
        plan=plan,
        rows=rows,
        missing=missing,
        obstacles=[*map(str, obstacles(plan))],
        pace=pace,
        hours=hours,
        detection=detection,
    )


def add_state(rows: Sequence[dict[str, Any]], plan: Plan) -> None:
    """Add `state_bytes` to the rows of a plan: weights, gradients, moments and average of a training."""
    for row in rows:
        cell = plan.rows[row["row"]][0].cell
        frozen = row["params"] + row["auxiliary_params"] - row["trained_params"]
        row["state_bytes"] = state_bytes(row["trained_params"]) + 4 * frozen
        if cell.training.optimizer == "muon":
            from tread_bench.model.matrices import hidden_matrices  # needs torch

            shapes = hidden_matrices(cell.backbone.family(), cell.backbone.spec(cell.data)).values()
            row["state_bytes"] -= _MOMENT_BYTES * sum(map(math.prod, shapes))
