"""`plan --step-time`: how long a suite computes, from the time of one training step, stated or measured."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from tread_bench.core.config.compute import Compute, StepOptions
from tread_bench.core.errors import UserError
from tread_bench.core.names import few
from tread_bench.core.numbers.cell_costs import VALIDATION_TIMES, expected_work, training_macs
from tread_bench.core.stored.records import Record
from tread_bench.runner.sources import read_run
from tread_bench.suite.plan import Plan

_NAMED = 3  # rows in a message


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

    def hours(self, row: str, training: int, evaluation: int) -> float:
        """Return the hours of a cell of that row, by its MACs of training and of evaluation."""
        pace = self.by_row.get(row, self.overall)
        return (training / pace + evaluation / (self.evaluation or pace)) / 3600


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
    if source.plan.smoke or not paces:
        why = "is a smoke run, whose figures mean nothing" if source.plan.smoke else "has no timed steps"
        raise UserError(f"--step-time {run} {why}: name a run with timing.pairs, or state milliseconds")
    by_row = {row: median(some) for row, some in paces.items()}

    # Evaluations, and what was computed otherwise.
    evaluations = [pace for record in source.records for pace in _evaluation_paces(record)]
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


def _evaluation_paces(record: Record) -> Iterator[float]:
    """MACs per second of a cell's evaluations: sampling and validation over all that they took."""
    cost = record.cost
    if cost is None:
        return
    forward = cost.evaluated_forward_macs or cost.dense_forward_macs
    validation = record.config["metrics"]["validation_samples"] * VALIDATION_TIMES * forward
    for one in record.evaluations:
        if one.seconds is not None:
            yield ((one.num_samples or 0) * (record.sampling_macs or 0) + validation) / one.seconds


def add_hours(table: Sequence[dict[str, Any]], plan: Plan, pace: Pace) -> float:
    """Add `device_hours` to each row, for all its cells and those that choose its learning rate, and `tuning_hours`,
    those of the latter. Return the sum.

    Of rows that share the trainings which choose, the first has their hours.

    Evaluations are counted at the pace that was measured of them; without one, at that of training steps where they
    compute as these do, and else they are left out.
    """
    of_tuning = tuning_hours(plan, pace)
    for row in table:
        cells = plan.rows[row["row"]]
        own = expected_work(cells[0].cell).evaluations if _counts_evaluations(plan, pace) else 0
        chooses = [cell.id for cell in plan.tuning_cells({row["row"]} & plan.tuning.keys())]
        row["tuning_hours"] = math.fsum(of_tuning.pop(cell, 0.0) for cell in chooses)
        row["device_hours"] = len(cells) * pace.hours(row["row"], row["training_macs"], own) + row["tuning_hours"]
    return math.fsum(row["device_hours"] for row in table)


def tuning_hours(plan: Plan, pace: Pace) -> dict[str, float]:
    """Return the hours of every training that chooses a learning rate, by cell."""
    counts_evaluations = _counts_evaluations(plan, pace)
    found = {}
    for planned in plan.tuning_cells(plan.tuning):
        evaluation = expected_work(planned.cell).evaluations if counts_evaluations else 0
        found[planned.id] = pace.hours(planned.tunes, training_macs(planned.cell), evaluation)
    return found


def _counts_evaluations(plan: Plan, pace: Pace) -> bool:
    return pace.evaluation is not None or _evaluates_as_it_trains(plan)


def _evaluates_as_it_trains(plan: Plan) -> bool:
    """Whether a training step computes in float32 without compilation, as evaluations always do."""
    return plan.suite.compute.autocast == "none" and not plan.suite.compute.compile


def in_hours(hours: float) -> str:
    """Such as "0.00141", "20.6" or "1,120"."""
    return f"{hours:,.0f}" if hours >= 1000 else f"{hours:.3g}"


def hours_in_words(hours: float, plan: Plan, pace: Pace) -> list[str]:
    """Return what the column adds up to, and what it rests on, a sentence per line."""
    if pace.evaluation is not None:
        evaluations = "Evaluations are counted at the MACs per second of those there, with feature network and decoding"
        left_out = "Starting and measuring speed are left out."
    elif _evaluates_as_it_trains(plan):
        evaluations = "Evaluations are counted at the same MACs per second"
        left_out = "Decoding, feature networks, starting and measuring speed are left out."
    else:
        evaluations = "Evaluations compute in float32 without compilation, at a rate that a training step does not show"
        left_out = "They, decoding, feature networks, starting and measuring speed are left out."
    lines = [
        f"About {in_hours(hours)} device-hours in all (GPU-hours on a GPU) if {pace.source}. {evaluations}. {left_out}"
    ]
    if pace.differs:
        lines.append(f"That run computed otherwise, so its steps take another time: {', '.join(pace.differs)}.")
    if not pace.by_row and any(cells[0].cell.routes for cells in plan.rows.values()):
        lines.append(
            "Rows with routes are counted at the ideal speed-up, that of their MACs: `--step-time RUN`, a run that "
            "timed their steps, gives the achieved one."
        )
    others = [row for row in plan.rows if pace.by_row and row not in pace.by_row]
    if others:
        rule = "the median MACs per second of the rows that were, which a network of another size need not reach"
        lines.append(f"Not timed there: {few(others, _NAMED)}. Their hours are at {rule}.")
    return lines
