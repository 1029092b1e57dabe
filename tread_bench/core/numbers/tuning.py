"""Which value is the best of some candidates, and whether it lies at the edge of what was tried."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

_FURTHER = 2  # candidates by which a range is extended beyond an edge


class Best(NamedTuple):
    """The best of some values; `is_bracketed` says whether a lower and a higher one are known to be worse."""

    value: float
    is_bracketed: bool


def best_of(losses: Mapping[float, float | None]) -> Best | None:
    """Return the value of lowest loss; of equal ones the lowest value. None where no loss is finite.

    Args:
        losses: by learning rate, or by another setting; infinite where training diverged, None where it is not known.
    """
    known = {value: loss for value, loss in losses.items() if loss is not None}
    finite = {value: loss for value, loss in known.items() if math.isfinite(loss)}
    if not finite:
        return None
    best = min(finite, key=lambda one: (finite[one], one))
    return Best(best, is_bracketed=min(known) < best < max(known))


def extended(candidates: Sequence[float], below: bool, above: bool) -> list[float]:
    """Return the ascending candidates with more of them beyond the edges, at the ratio of the last two on that side."""
    found = list(candidates)
    for _ in range(_FURTHER):
        if below:
            found.insert(0, _rounded(found[0] ** 2 / found[1]))
        if above:
            found.append(_rounded(found[-1] ** 2 / found[-2]))
    return found


def _rounded(value: float) -> float:
    """As people write it: the factor between two candidates is rarely exact."""
    return float(f"{value:.6g}")
