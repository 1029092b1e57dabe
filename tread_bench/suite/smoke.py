"""What a smoke run changes: a few iterations and samples of every cell, to show that everything works. No torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tread_bench.core.config.compute import Timing
from tread_bench.core.config.suite import Cell

ITERATIONS = 4
STEPS = 2  # of the sampler
# Nothing is raised above what the suite has.
_TRAINING = {"iterations": ITERATIONS, "batch": 8, "checkpoint_every": 2}
_METRICS = {"num_samples": 32, "validation_samples": 16, "similarity_samples": 8, "kid_subset_size": 16}
_TIMING = {"pairs": 2, "warmup": 1}


def smoke_timing(timing: Timing) -> Timing:
    """Return how a smoke run measures speed."""
    return timing.model_copy(update=_at_most(timing, _TIMING))


def smoke_cell(cell: Cell, length_of: Callable[[str], int]) -> Cell:
    """Return the cell as a smoke run has it: it does all that the cell does, for a shorter time.

    Args:
        length_of: row -> the iterations that it trains for in the suite; where they are not known, any large number.
    """
    # Its training. Each part of the schedule and of the decay has a step.
    training, schedule = cell.training, cell.schedule
    is_shorter = training.iterations > ITERATIONS
    of_training: dict[str, Any] = _at_most(training, _TRAINING)
    of_training["snapshots"] = tuple(_moment(moment, training.iterations) for moment in training.snapshots)
    if 0 < training.decay.span < 1 and is_shorter:
        share = max(training.decay.span, 2 / ITERATIONS)
        of_training["decay"] = training.decay.model_copy(update={"share": share})
    if training.start is not None and training.start.run is None:
        begun = _moment(training.start.iteration, length_of(training.start.row))
        of_training["start"] = training.start.model_copy(update={"iteration": begun})
    parts: dict[str, float] = {}
    if is_shorter and schedule.warmup:
        parts["warmup"] = min(max(schedule.warmup, 1 / ITERATIONS), 2 / ITERATIONS)
    if is_shorter and schedule.until < 1:
        parts["until"] = min(max(schedule.until, 2 / ITERATIONS), 3 / ITERATIONS)

    # Its evaluation: halfway and at the end, never where nothing is trained, by as many samples as metrics need.
    of_metrics: dict[str, Any] = _at_most(cell.metrics, _METRICS)
    for metric in cell.metrics.also:
        least = min(cell.metrics.num_samples, metric.family.min_samples(metric))
        of_metrics["num_samples"] = max(of_metrics.get("num_samples", cell.metrics.num_samples), least)
    last = min(training.iterations, ITERATIONS)
    if last:
        start = {0} & {*(cell.metrics.at or ())}
        of_metrics["at"] = tuple(sorted({*start, max(1, last // 2), last}))
    sampling = cell.sampling.model_copy(update={"steps": _steps(cell)})
    changes: dict[str, Any] = {
        "training": training.model_copy(update=of_training),
        "schedule": schedule.model_copy(update=parts),
        "metrics": cell.metrics.model_copy(update=of_metrics),
        "sampling": sampling,
    }

    # The weights that it evaluates, and those that guide it, of moments of the shorter trainings.
    evaluated, guidance = cell.evaluate, cell.sampling.guidance
    if evaluated is not None and evaluated.run is None:
        iteration = _moment(evaluated.iteration, length_of(evaluated.row))
        changes["evaluate"] = evaluated.model_copy(update={"iteration": iteration})
        if guidance.weak_snapshot is not None:
            row = guidance.weak_row or evaluated.row
            guidance = guidance.with_weights(row, _moment(guidance.weak_snapshot, length_of(row)))
            changes["sampling"] = sampling.model_copy(update={"guidance": guidance})
    return cell.model_copy(update=changes)


def _steps(cell: Cell) -> int:
    """The sampler's steps: more than 2 where guidance is limited to an interval in which none of them lies."""
    most, interval = cell.sampling.steps, cell.sampling.guidance.guided_times
    if interval is None:
        return min(STEPS, most)
    low, high = interval
    for steps in range(min(STEPS, most), most):
        if any(low < cell.objective.sampling_time(step, steps) <= high for step in range(steps)):
            return steps
    return most


def _moment(moment: float | None, length: int) -> Any:
    """An iteration of a training of that length, in the shorter one; what comes before the end stays before it."""
    if not isinstance(moment, int):
        return moment  # a share, or the end
    last = min(length, ITERATIONS)
    return last if moment >= length else max(1, min(last - 1, round(moment / length * last)))


def _at_most(part: Any, most: dict[str, int]) -> dict[str, int]:
    return {key: min(value, getattr(part, key)) for key, value in most.items()}
