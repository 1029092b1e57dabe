"""What a smoke run changes: a few iterations and samples of every cell, to show that everything works. No torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from tread_bench.core.config.compute import Timing
from tread_bench.core.config.suite import Cell
from tread_bench.suite.budgets import fitted
from tread_bench.suite.resolve import Resolved
from tread_bench.suite.weights import Weights

ITERATIONS = 4
STEPS = 2  # of the sampler
# Nothing is raised above what the suite has.
_TRAINING = {"iterations": ITERATIONS, "batch": 8, "checkpoint_every": 2}
_METRICS = {"num_samples": 32, "validation_samples": 16, "similarity_samples": 8, "kid_subset_size": 16}
_TIMING = {"pairs": 2, "warmup": 1}


def smoke_timing(timing: Timing) -> Timing:
    """Return how a smoke run measures speed."""
    return timing.model_copy(update=_at_most(timing, _TIMING))


def shortener(rows: Mapping[str, Resolved], replace_missing: Callable[[Cell], Cell]) -> Callable[[str], Resolved]:
    """Return what gives a row by its name as a smoke run has it: it does all that the row does, for a shorter time.

    Args:
        rows: by name.
        replace_missing: the cell to take instead of one whose files are missing.
    """

    @cache
    def shorter(name: str) -> Resolved:
        # It reads the weights at the end of the shorter trainings.
        row = rows[name]
        reads = dict(row.reads)
        for kind, weights in row.reads.items():
            if not weights.source.run:
                cell = shorter(weights.source.row).cell
                reads[kind] = Weights(replace(weights.source, cell=cell), cell.training.iterations)
        short = row._replace(reads=reads)
        budget = row.cell.training.budget
        if budget is not None and row.reference is not None:
            short = short._replace(reference=shorter(budget.macs_of).cell)
        cell = _with_shorter_evaluation(replace_missing(row.cell), short)
        if row.cell.evaluate is None:
            cell = _with_shorter_training(cell, short)
        return short._replace(cell=cell)

    return shorter


def _with_shorter_training(cell: Cell, row: Resolved) -> Cell:
    """The cell of a shortened row with its training: each part of the schedule and of the decay has a step.

    It is evaluated halfway and at the end, never where nothing is trained.
    """
    training, schedule = cell.training, cell.schedule
    of_training: dict[str, Any] = {**_at_most(training, _TRAINING), "snapshots": ()}
    parts: dict[str, float] = {}
    if training.iterations > ITERATIONS:
        if 0 < training.decay.span < 1:
            share = max(training.decay.span, 2 / ITERATIONS)
            of_training["decay"] = training.decay.model_copy(update={"share": share})
        if schedule.warmup:
            parts["warmup"] = min(max(schedule.warmup, 1 / ITERATIONS), 2 / ITERATIONS)
        if schedule.until < 1:
            parts["until"] = min(max(schedule.until, 2 / ITERATIONS), 3 / ITERATIONS)
    if training.start is not None and "start" in row.reads:
        of_training["start"] = training.start.model_copy(update={"iteration": row.reads["start"].iteration})
    changes: dict[str, Any] = {
        "training": training.model_copy(update=of_training),
        "schedule": schedule.model_copy(update=parts),
    }
    if last := of_training["iterations"]:
        start = {0} & {*(cell.metrics.at or ())}
        at = tuple(sorted({*start, max(1, last // 2), last}))
        changes["metrics"] = cell.metrics.model_copy(update={"at": at})
    short = cell.model_copy(update=changes)
    if training.budget is not None and row.reference is not None:
        short, _ = fitted(short, training.budget.macs_of, row.reference, row.reference)
    return short


def _with_shorter_evaluation(cell: Cell, row: Resolved) -> Cell:
    """The cell of a shortened row with few samples, as many as its metrics need, of the weights that the row reads."""
    of_metrics: dict[str, Any] = _at_most(cell.metrics, _METRICS)
    for metric in cell.metrics.also:
        least = min(cell.metrics.num_samples, metric.family.min_samples(metric))
        of_metrics["num_samples"] = max(of_metrics["num_samples"], least)
    sampling = cell.sampling
    if sampling.guidance.guided_times is None:  # else none of few steps may lie in that interval
        sampling = sampling.model_copy(update={"steps": min(STEPS, sampling.steps)})
    if weak := row.reads.get("weak"):
        guidance = sampling.guidance.with_weights(weak.source.row, weak.iteration)
        sampling = sampling.model_copy(update={"guidance": guidance})
    changes: dict[str, Any] = {"sampling": sampling}
    if cell.evaluate is not None and (evaluated := row.reads.get("network")):
        trained = evaluated.source.cell
        changes["evaluate"] = cell.evaluate.model_copy(update={"iteration": evaluated.iteration})
        changes |= {"training": trained.training, "schedule": trained.schedule}
        of_metrics["at"] = (evaluated.iteration,)
    changes["metrics"] = cell.metrics.model_copy(update=of_metrics)
    return cell.model_copy(update=changes)


def _at_most(part: Any, most: dict[str, int]) -> dict[str, int]:
    return {key: min(value, getattr(part, key)) for key, value in most.items()}
