"""What a smoke run changes: a few iterations and samples of every cell, to show that everything works. No torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from tread_bench.core.config.compute import Timing
from tread_bench.core.config.suite import Cell
from tread_bench.core.stored.documents import Reads
from tread_bench.suite.budgets import fitted
from tread_bench.suite.resolve import Row
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


def shortener(rows: Mapping[str, Row], replace_missing: Callable[[Cell], Cell]) -> Callable[[str], Row]:
    """Return what gives a row by its name as a smoke run has it: it does all that the row does, for a shorter time.

    Args:
        rows: by name.
        replace_missing: the cell to take instead of one whose files are missing.
    """

    @cache
    def shorter(name: str) -> Row:
        # It reads the weights at the end of the shorter trainings, and costs what the shorter row of its budget does.
        row = rows[name]
        reads = dict(row.reads)
        for kind, weights in row.reads.items():
            if not weights.source.run:
                cell = shorter(weights.source.row).cell
                reads[kind] = Weights(replace(weights.source, cell=cell), cell.training.iterations)
        short = _shortened(replace_missing(row.cell), reads)
        budget, reference = row.cell.training.budget, row.reference
        if budget is not None and reference is not None:
            reference = shorter(budget.macs_of).cell
            short, _ = fitted(short, budget.macs_of, reference, reference)
        return replace(row, cell=short, reads=reads, reference=reference)

    return shorter


def _shortened(cell: Cell, reads: Mapping[Reads, Weights]) -> Cell:
    """The cell with few samples and iterations, of which each part of the schedule and of the decay has one.

    It is evaluated halfway and at the end, never where nothing is trained.
    """
    # Few samples, as many as its metrics need.
    metrics: dict[str, Any] = _at_most(cell.metrics, _METRICS)
    for metric in cell.metrics.also:
        least = min(cell.metrics.num_samples, metric.family.min_samples(metric))
        metrics["num_samples"] = max(metrics["num_samples"], least)
    sampling = cell.sampling
    if sampling.guidance.guided_times is None:  # else none of few steps may lie in that interval
        sampling = sampling.model_copy(update={"steps": min(STEPS, sampling.steps)})
    if weak := reads.get("weak"):
        guidance = sampling.guidance.with_weights(weak.source.row, weak.iteration)
        sampling = sampling.model_copy(update={"guidance": guidance})
    changes: dict[str, Any] = {"sampling": sampling}

    # Of what it evaluates, or of its own short training.
    training, schedule = cell.training, cell.schedule
    if cell.evaluate is not None and (evaluated := reads.get("network")):
        trained = evaluated.source.cell
        changes["evaluate"] = cell.evaluate.model_copy(update={"iteration": evaluated.iteration})
        changes |= {"training": trained.training, "schedule": trained.schedule}
        metrics["at"] = (evaluated.iteration,)
    elif cell.evaluate is None:
        short: dict[str, Any] = {**_at_most(training, _TRAINING), "snapshots": ()}
        parts: dict[str, float] = {}
        if training.iterations > ITERATIONS:
            if 0 < training.decay.span < 1:
                share = max(training.decay.span, 2 / ITERATIONS)
                short["decay"] = training.decay.model_copy(update={"share": share})
            if schedule.warmup:
                parts["warmup"] = min(max(schedule.warmup, 1 / ITERATIONS), 2 / ITERATIONS)
            if schedule.until < 1:
                parts["until"] = min(max(schedule.until, 2 / ITERATIONS), 3 / ITERATIONS)
        if training.start is not None and "start" in reads:
            short["start"] = training.start.model_copy(update={"iteration": reads["start"].iteration})
        changes |= {"training": training.model_copy(update=short), "schedule": schedule.model_copy(update=parts)}
        if last := short["iterations"]:
            start = {0} & {*(cell.metrics.at or ())}
            metrics["at"] = tuple(sorted({*start, max(1, last // 2), last}))
    changes["metrics"] = cell.metrics.model_copy(update=metrics)
    return cell.model_copy(update=changes)


def _at_most(part: Any, most: dict[str, int]) -> dict[str, int]:
    return {key: min(value, getattr(part, key)) for key, value in most.items()}
