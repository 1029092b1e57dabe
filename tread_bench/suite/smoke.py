"""What a smoke run changes: a few iterations and samples of every cell, to show that everything works. No torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tread_bench.core.config.compute import Timing
from tread_bench.core.config.metrics import Metrics
from tread_bench.core.config.sampling import Sampling
from tread_bench.core.config.suite import Cell
from tread_bench.core.config.training import RoutingSchedule, Training

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
    training = cell.training
    changes: dict[str, Any] = {
        "training": _training(training),
        "metrics": _metrics(cell.metrics, min(training.iterations, ITERATIONS)),
        "sampling": cell.sampling.model_copy(update={"steps": _steps(cell)}),
    }
    if training.iterations > ITERATIONS:
        changes["schedule"] = _schedule(cell.schedule)
    start = training.start
    if start is not None and start.run is None:
        begun = start.model_copy(update={"iteration": _moment(start.iteration, length_of(start.row))})
        changes["training"] = changes["training"].model_copy(update={"start": begun})
    evaluated = cell.evaluate
    if evaluated is not None and evaluated.run is None:
        iteration = _moment(evaluated.iteration, length_of(evaluated.row))
        changes["evaluate"] = evaluated.model_copy(update={"iteration": iteration})
        changes["sampling"] = _guided(changes["sampling"], length_of, evaluated.row)
    return cell.model_copy(update=changes)


def _training(training: Training) -> Training:
    changes: dict[str, Any] = _at_most(training, _TRAINING)
    changes["snapshots"] = tuple(_moment(moment, training.iterations) for moment in training.snapshots)
    if 0 < training.decay.span < 1 and training.iterations > ITERATIONS:
        share = max(training.decay.span, 2 / ITERATIONS)  # has a step
        changes["decay"] = training.decay.model_copy(update={"share": share})
    return training.model_copy(update=changes)


def _schedule(schedule: RoutingSchedule) -> RoutingSchedule:
    """Each part of the schedule has a step."""
    warmup = min(max(schedule.warmup, 1 / ITERATIONS), 2 / ITERATIONS) if schedule.warmup else 0.0
    until = min(max(schedule.until, 2 / ITERATIONS), 3 / ITERATIONS) if schedule.until < 1 else 1.0
    return schedule.model_copy(update={"warmup": warmup, "until": until})


def _metrics(metrics: Metrics, last: int) -> Metrics:
    """Evaluated halfway and at the end; never where nothing is trained. Metrics have as many samples as they need."""
    changes: dict[str, Any] = _at_most(metrics, _METRICS)
    for metric in metrics.also:
        least = min(metrics.num_samples, metric.family.min_samples(metric))
        changes["num_samples"] = max(changes.get("num_samples", metrics.num_samples), least)
    start = {0} & {*(metrics.at or ())}
    changes["at"] = tuple(sorted({*start, max(1, last // 2), last})) if last else metrics.at
    return metrics.model_copy(update=changes)


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


def _guided(sampling: Sampling, length_of: Callable[[str], int], evaluated: str) -> Sampling:
    """The weights of the weak branch, if it has any of its own, of a moment of the shorter training."""
    rule = sampling.guidance
    if rule.weak_snapshot is None:
        return sampling
    row = rule.weak_row or evaluated
    changed = rule.with_weights(row, _moment(rule.weak_snapshot, length_of(row)))
    return sampling.model_copy(update={"guidance": changed})


def _moment(moment: float | None, length: int) -> Any:
    """An iteration of a training of that length, in the shorter one; what comes before the end stays before it."""
    if not isinstance(moment, int):
        return moment  # a share, or the end
    last = min(length, ITERATIONS)
    return last if moment >= length else max(1, min(last - 1, round(moment / length * last)))


def _at_most(part: Any, most: dict[str, int]) -> dict[str, int]:
    return {key: min(value, getattr(part, key)) for key, value in most.items()}
