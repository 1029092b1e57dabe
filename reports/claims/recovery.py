"""After how many steps a training that started from other weights has come back to the loss that it started with."""

from __future__ import annotations

from tread_bench.core.stored.records import Record


def recovered_at(record: Record) -> int | None:
    """Return the first evaluated iteration from which on the validation loss is not above that of iteration 0.

    0: it never was above. None: it is still above at the end, or there was no evaluation at iteration 0.
    """
    points = sorted(record.evaluations, key=lambda evaluation: evaluation.iteration)
    if len(points) < 2 or points[0].iteration:
        return None
    first, *later = points
    above = [one.iteration for one in later if one.validation_loss > first.validation_loss]
    if not above:
        return 0
    return next((one.iteration for one in later if one.iteration > above[-1]), None)
