"""`plan`: what a suite requests, without training."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tread_bench.core.errors import UserError
from tread_bench.core.numbers.cell_costs import cell_cost
from tread_bench.services.detect_request import DetectRequest
from tread_bench.services.gpus import OnGpus, WithinBudget, add_state, hours_of, on_gpus, within_budget
from tread_bench.services.hours import Pace, add_hours, pace_of, tuning_hours
from tread_bench.suite.files import Look
from tread_bench.suite.load import find_suite, load_plan
from tread_bench.suite.plan import Plan, plan_table

if TYPE_CHECKING:
    from tread_bench.services.detect import Detection


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A plan with what it costs.

    Args:
        rows: a row of figures per row of the suite.
        missing: files that it needs, each as a message.
        hours: device-hours at `pace`; None: no step time was given.
        detection: how many seeds find a difference; None: that was not requested.
        gpus: when it is finished on several GPUs; None: that was not requested.
        budget: which rows fit into some hours; None: that was not requested.
        memory: why activations of some rows could not be predicted, by row; None: that was not requested.
    """

    plan: Plan
    rows: list[dict[str, Any]]
    missing: list[str]
    pace: Pace | None
    hours: float | None
    detection: Detection | None
    gpus: OnGpus | None = None
    budget: WithinBudget | None = None
    memory: dict[str, str] | None = None


def plan_suite(
    name: str,
    overrides: list[str],
    request: DetectRequest | None = None,
    step_time: str | None = None,
    data_root: Path | None = None,
    gpus: int | None = None,
    budget: str | None = None,
    memory: str | None = None,
) -> Planned:
    """Plan a suite; files that are there are checked, others are listed.

    Args:
        request: asks how many seeds find a difference.
        step_time: milliseconds, or a run that measured them, for the time that the suite takes.
        gpus: how many GPUs to compute the time for; `budget` says how many device-hours there are, such as "200h". Both
            need `step_time`.
        memory: the type of device, "cpu" or "cuda", for which activations are predicted.

    Raises:
        UserError: the suite is wrong, or what was requested cannot be computed of it.
    """
    # Costs and hours.
    if step_time is None and (gpus is not None or budget is not None):
        raise UserError("--gpus and --budget need the time of a step: give --step-time MS, or a run that timed it")
    available = None if budget is None else hours_of(budget)
    path = find_suite(name)
    plan = load_plan(path, overrides, data_root=data_root, look=Look.HEADERS, allows_missing=True)
    rows = plan_table(plan, cell_cost)
    pace = None if step_time is None else pace_of(step_time, plan, rows)
    hours = None if pace is None else add_hours(rows, plan, pace)

    # Memory.
    if gpus is not None or memory is not None:
        add_state(rows, plan)
    unpredicted = None
    if memory is not None:
        from tread_bench.services.memory import add_activations  # needs torch

        unpredicted = add_activations(rows, plan, memory)

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
        pace=pace,
        hours=hours,
        detection=detection,
        gpus=None if gpus is None else on_gpus(plan, rows, gpus),
        budget=None
        if pace is None or available is None
        else within_budget(plan, rows, available, tuning_hours(plan, pace)),
        memory=unpredicted,
    )
