"""Which learning rate is the best of some candidates, and whether it lies at the edge of what was tried."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

_FURTHER = 2  # candidates by which a range is extended beyond an edge


class Best(NamedTuple):
    """The best of some learning rates; `is_bracketed` says whether a lower and a higher one are known to be worse."""

    rate: float
    is_bracketed: bool


def best_rate(losses: Mapping[float, float | None]) -> Best | None:
    """Return the learning rate of lowest loss; of equal ones the lowest rate. None where no loss is finite.

    Args:
        losses: by learning rate; infinite where training diverged, None where it is not known.
    """
    known = {rate: loss for rate, loss in losses.items() if loss is not None}
    finite = {rate: loss for rate, loss in known.items() if math.isfinite(loss)}
    if not finite:
        return None
    rate = min(finite, key=lambda one: (finite[one], one))
    return Best(rate, is_bracketed=min(known) < rate < max(known))


def extended(rates: Sequence[float], below: bool, above: bool) -> list[float]:
    """Return the ascending rates with more of them beyond the edges, at the ratio of the last two on that side."""
    found = list(rates)
    for _ in range(_FURTHER):
        if below:
            found.insert(0, _rounded(found[0] ** 2 / found[1]))
        if above:
            found.append(_rounded(found[-1] ** 2 / found[-2]))
    return found


def _rounded(rate: float) -> float:
    """As people write it: the factor between two candidates is rarely exact."""
    return float(f"{rate:.6g}")
