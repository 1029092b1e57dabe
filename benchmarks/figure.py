"""What a row measured, and whether both of its sides computed the same."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


class DisagreementError(Exception):
    """Both sides of a row did not compute the same, so their times mean nothing."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """Largest difference of both sides over the largest value, and the most that the row accepts."""

    error: float
    tolerance: float


@dataclass(frozen=True, slots=True)
class Figure:
    """What a row measured: a median and its 95 % interval.

    `samples` are the measurements behind it, by side, the k-th of both a pair; `facts` what else a reader needs (MACs).
    """

    value: float
    low: float
    high: float
    agreement: Agreement | None = None
    samples: Mapping[str, Sequence[float]] = field(default_factory=dict)
    facts: Mapping[str, float] = field(default_factory=dict)

    def times(self, factor: float) -> Figure:
        """The same in another unit."""
        scaled = (self.value * factor, self.low * factor, self.high * factor)
        return Figure(*scaled, self.agreement, self.samples, self.facts)


def agree(ours: Iterable[Tensor], theirs: Iterable[Tensor], tolerance: float) -> Agreement:
    """Compare tensors pair by pair, in float64.

    Raises:
        DisagreementError: a difference is larger than `tolerance` times the largest value of its tensor, or not finite.
    """
    error = 0.0
    for one, other in zip(ours, theirs, strict=True):
        difference = float((one.detach().double() - other.detach().double()).abs().max())
        largest = float(other.detach().double().abs().max())
        relative = difference / largest if largest else difference
        error = max(error, relative) if math.isfinite(relative) else math.inf
    if error > tolerance:
        raise DisagreementError(f"the two sides differ by {error:.1e} relative, where {tolerance:.0e} is accepted")
    return Agreement(error, tolerance)
