"""`plan --step-time`: how long a suite computes, from the time of one training step, stated or measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from statistics import median
from typing import Any

from tread_bench.cli.costs import plan_table, tuning_by_row
from tread_bench.core.config.compute import Compute, StepOptions
from tread_bench.core.errors import UserError
from tread_bench.core.names import few
from tread_bench.core.numbers.costs import VALIDATION_TIMES, expected_work, training_macs
from tread_bench.core.problems import SuiteError
from tread_bench.runner.sources import read_run
from tread_bench.suite.decidable import obstacles, routes_of
from tread_bench.suite.plan import Plan, PlannedCell

Replan = Callable[[list[str]], Plan]

_NAMED = 3  # rows in a message
_SEEDS = (2, 3, 5, 10)  # that `--hours` proposes beside the suite's own


@dataclass(frozen=True)
class Pace:
    """MACs per second of training steps: of rows by name, and of any other row; `source` says where from.

    `evaluation` is that of evaluations, feature network and decoding included; None: not measured. `differs` names what
    the source computed otherwise than the suite will.
    """

    by_row: Mapping[str, float]
    overall: float
    source: str
    evaluation: float | None = None
    differs: Sequence[str] = ()


def pace_of(given: str, plan: Plan, table: Sequence[Mapping[str, Any]]) -> Pace:
    """Return the pace that `--step-time` gives: milliseconds of a step of the first row, or a run that timed steps.

    Args:
        table: the rows of `plan_table`.

    Raises:
        UserError: it is neither, or nothing was timed.
    """
    try:
        step_ms = float(given)
    except ValueError:
        return _measured(Path(given), plan.suite.compute)
    if not 0 < step_ms < math.inf:
        raise UserError(
            f"--step-time {given}: must be a finite number of milliseconds above 0, or a run that timed steps"
        )
    first = next((row for row in table if row["training_macs"]), None)
    if first is None:
        raise UserError(f"--step-time {given}: no row of this suite trains, so there are no steps; leave it out")
    macs_per_s = first["training_macs"] / first["iterations"] / step_ms * 1000
    return Pace({}, macs_per_s, f"a training step of row {first['row']} takes {step_ms:g} ms, as stated")


def _measured(run: Path, compute: Compute) -> Pace:
    """The pace of a run's rows, by its records: their paired speed-ups over the median step of what they were timed
    with.
    """
    if not run.exists():
        raise UserError(f"--step-time {run}: neither a number of milliseconds nor a run folder or its export")
    source = read_run(run)
    timed = [(record, record.timing, record.cost) for record in source.records if record.timing and record.cost]
    if source.plan.smoke or not timed:
        why = "is a smoke run, whose figures mean nothing" if source.plan.smoke else "has no timed steps yet"
        raise UserError(f"--step-time {run} {why}: name a finished run with timing.pairs, or state milliseconds")

    # Steps of the same dense network, timed with every row: what differs between them is the machine's.
    references: dict[str, list[float]] = {}
    for record, timing, _ in timed:
        timed_with = timing.reference_backbone or record.reference
        references.setdefault(timed_with, []).extend(timing.reference_step_times_ms)

    # A row's step by its paired speed-up, that of the reference against itself being noise; routes are as written.
    paces: dict[str, list[float]] = {}
    for record, timing, cost in timed:
        is_control = record.cell == record.reference and not timing.reference_backbone
        timed_with = timing.reference_backbone or record.reference
        step_ms = median(references[timed_with]) / (1.0 if is_control else timing.speedup)
        paces.setdefault(record.row, []).append(1000 * cost.train_step_macs * timing.batch / step_ms)
    by_row = {row: median(some) for row, some in paces.items()}

    # Evaluations: sampling and validation over all that they took.
    evaluations = []
    for record in source.records:
        if record.cost is None:
            continue
        forward = record.cost.evaluated_forward_macs or record.cost.dense_forward_macs
        validation = record.config["metrics"]["validation_samples"] * VALIDATION_TIMES * forward
        for one in record.evaluations:
            if one.seconds is not None:
                sampling = (one.num_samples or 0) * (record.sampling_macs or 0)
                evaluations.append((sampling + validation) / one.seconds)

    # What was computed otherwise.
    numerics = source.plan.numerics
    differs = [
        f"{key} {getattr(numerics, key)}, here {requested}"
        for key, requested in compute.model_dump(include=set(StepOptions.model_fields)).items()
        if getattr(numerics, key) != requested
    ]
    return Pace(
        by_row,
        median(by_row.values()),
        f"steps take as long as {run} measured on {numerics.device_name or numerics.device}",
        evaluation=median(evaluations) if evaluations else None,
        differs=differs,
    )


def add_hours(table: Sequence[dict[str, Any]], plan: Plan, pace: Pace) -> float:
    """Add `device_hours` to each row, for all its cells and those that choose its learning rate, and `tuning_hours`,
    those of the latter. Return the sum.

    Of rows that share the trainings which choose, the first has their hours.

    Evaluations are counted at the pace that was measured of them; without one, at that of training steps.
    """

    def hours(row: str, planned: PlannedCell, macs: int) -> float:
        of_row = pace.by_row.get(row, pace.overall)
        evaluations_s = expected_work(planned.cell).evaluations / (pace.evaluation or of_row)
        return (macs / of_row + evaluations_s) / 3600

    tuning = tuning_by_row(plan)
    for row in table:
        name, cells = row["row"], plan.rows[row["row"]]
        choosing = tuning.get(name, [])
        row["tuning_hours"] = math.fsum(hours(one.tunes, one, training_macs(one.cell)) for one in choosing)
        row["device_hours"] = len(cells) * hours(name, cells[0], row["training_macs"]) + row["tuning_hours"]
    return math.fsum(row["device_hours"] for row in table)


def within(limit: float, plan: Plan, pace: Pace, replan: Replan, run: Path | None) -> list[dict[str, Any]]:
    """Return seeds and lengths with which all rows of a suite fit into `limit` device-hours, as JSON values.

    Each number of seeds has the longest training that fits, in tenths of the suite's own; rows that differ in their
    lengths keep them. `finds` is the smallest true difference in FID from dense, at equal training MACs, that a
    decision finds at 80 % power in the route that varies most in `run`; null without a run.

    Args:
        replan: returns the plan with further overrides.

    Raises:
        UserError: the limit is not a finite number above 0, no row trains, or the run does not show how routes vary.
    """
    from tread_bench.core.numbers.statistics import LEVEL, effect_found  # needs scipy

    trained = [cells[0] for cells in plan.rows.values() if cells[0].cell.trains]
    lengths = {row.cell.training.iterations: row.cell.metrics for row in trained if not row.cell.training.budget}
    if not 0 < limit < math.inf or not lengths:
        rule = "must be a finite number above 0" if lengths else "no row of this suite trains, so leave it out"
        raise UserError(f"--hours {limit:g}: {rule}")
    routes = [row.row for row in routes_of(trained)]
    spread = None if run is None else _spread_in(run, routes)

    # Each length that may fit is planned anew, so that its evaluations are counted; the first that fits is the longest.
    found, hindered = [], {problem.loc for problem in obstacles(plan)}
    (length, metrics), own_hours = next(iter(lengths.items())), add_hours(plan_table(plan), plan, pace)
    for seeds in sorted({len(plan.suite.seeds), *_SEEDS}):
        most = 10 if plan.tuning else math.ceil(10 * limit * len(plan.suite.seeds) / (seeds * own_hours))
        for tenths in range(min(10, most), 0 if len(lengths) == 1 else 9, -1):
            iterations, settings = max(1, length * tenths // 10), [f"seeds={seeds}"]
            if tenths < 10:
                moments = sorted({max(1, moment * tenths // 10) for moment in metrics.iterations(length)})
                settings += [f"training.iterations={iterations}", f"metrics.at={moments}".replace(" ", "")]
            try:
                shorter = replan(settings)
            except SuiteError:  # another key, such as snapshots, needs a longer training
                break
            hours = add_hours(plan_table(shorter), shorter, pace)
            if hours <= limit and {problem.loc for problem in obstacles(shorter)} <= hindered:
                finds = None if spread is None else spread * effect_found(seeds, LEVEL / len(routes))
                numbers = {"seeds": seeds, "iterations": iterations, "device_hours": hours, "finds": finds}
                found.append(numbers | {"set": settings})
                break
    return found


def _spread_in(run: Path, routes: Sequence[str]) -> float:
    """The largest standard deviation of the paired differences of routes at equal training MACs."""
    from tread_bench.reports.differences import MACS
    from tread_bench.reports.study import Study

    source = read_run(run)
    differences = [row.difference(MACS) for row in Study(source.records).rows if row.name in routes]
    spreads = [one.spread for one in differences if one is not None and one.spread is not None]
    if source.plan.smoke or not spreads:
        wanted = f"a finished run with two seeds or more of a route of this suite ({few(routes, _NAMED)}) and of dense"
        raise UserError(f"--from {run} does not show how much differences vary: name {wanted}")
    return max(spreads)


def within_in_words(limit: float, found: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a line for each number of seeds, and what they rest on."""
    if not found:
        shorter = "nor in a shorter training that the suite's keys allow and that can be decided"
        return [f"Two seeds do not fit into {limit:g} device-hours, {shorter}."]
    lines = [f"Into {limit:g} device-hours fit, with all rows, and the smallest difference that a decision then finds:"]
    for one in found:
        finds = "not known without --from RUN" if one["finds"] is None else f"{one['finds']:.3g} FID"
        length = f"{one['seeds']} seeds of {one['iterations']:,} iterations, {in_hours(one['device_hours'])} hours"
        lines.append(f"  {length}, {finds}: " + " ".join(f"--set {quote(setting)}" for setting in one["set"]))
    return lines


def in_hours(hours: float) -> str:
    """Such as "0.00141", "20.6" or "1,120"."""
    return f"{hours:,.0f}" if hours >= 1000 else f"{hours:.3g}"


def hours_in_words(hours: float, plan: Plan, pace: Pace) -> list[str]:
    """Return what the column adds up to, and what it rests on, a sentence per line."""
    rate = "the MACs per second of those there"
    if pace.evaluation is None:
        rate = "the same MACs per second, without decoding and feature networks"
    if pace.evaluation is None and (plan.suite.compute.autocast != "none" or plan.suite.compute.compile):
        rate += "; they take longer in float32 without compilation"
    lines = [
        f"About {in_hours(hours)} device-hours in all (GPU-hours on a GPU) if {pace.source}. Evaluations are counted "
        f"at {rate}. Starting and measuring speed are left out."
    ]
    if pace.differs:
        lines.append(f"That run computed otherwise, so its steps take another time: {', '.join(pace.differs)}.")
    if not pace.by_row and any(cells[0].cell.routes for cells in plan.rows.values()):
        lines.append("Rows with routes are counted at the ideal speed-up: `--step-time RUN` has that of a run's steps.")
    others = [row for row in plan.rows if pace.by_row and row not in pace.by_row]
    if others:
        lines.append(f"Not timed there: {few(others, _NAMED)}. They have the median MACs per second of the others.")
    return lines
