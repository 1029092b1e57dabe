"""A row of the table: one claim, the function that measures it, and what became of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.figure import Figure
    from benchmarks.timing import Bench


class SkippedError(Exception):
    """A row that cannot be measured here; its text says why, and what to do about it."""


class Verdict(StrEnum):
    """What an interval says about a target."""

    REACHED = "reached"
    NOT_REACHED = "not reached"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True)
class Row:
    """One claim.

    Args:
        name: `subject/what`.
        claim: a sentence: what is compared, under which conditions.
        unit: "×" (how many times faster), "× less" (memory), "of MACs" (a share of what MACs promise), "%", "s" or
            "ms per cell".
        required: the figure must be this at least; where `is_cost`, this at most.
        aim: what would be better still.
        is_cost: a smaller figure is better.
    """

    name: str
    claim: str
    measure: Callable[[Bench], Figure]
    unit: str = "×"
    required: float | None = None
    aim: float | None = None
    is_cost: bool = False

    def verdict(self, figure: Figure, target: float | None) -> Verdict | None:
        """Whether the whole interval lies on one side of a target; None without a target."""
        if target is None:
            return None
        if self.is_cost:
            is_reached, is_missed = figure.high <= target, figure.low > target
        else:
            is_reached, is_missed = figure.low >= target, figure.high < target
        if is_reached:
            return Verdict.REACHED
        return Verdict.NOT_REACHED if is_missed else Verdict.INCONCLUSIVE


ROWS: dict[str, Row] = {}


def row(
    name: str,
    *,
    unit: str = "×",
    required: float | None = None,
    aim: float | None = None,
    is_cost: bool = False,
    claim: str = "",
) -> Callable[[Callable[[Bench], Figure]], Callable[[Bench], Figure]]:
    """Make a function a row of the table; its claim is the function's docstring, unless one is given."""

    def register(measure: Callable[[Bench], Figure]) -> Callable[[Bench], Figure]:
        text = " ".join((claim or measure.__doc__ or "").split())
        if not text or name in ROWS:
            raise ValueError(f"benchmark row {name!r} needs a docstring that says what it compares, and its own name")
        ROWS[name] = Row(name, text, measure, unit, required, aim, is_cost)
        return measure

    return register
