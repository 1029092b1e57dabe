"""Numbers as people read them."""

from __future__ import annotations

import math
from collections.abc import Iterable

from tread_bench.core.numbers.onset import Ratio
from tread_bench.core.numbers.statistics import MeanInterval

MINUS = "\N{MINUS SIGN}"
DASH = "\N{EN DASH}"


def decimals(values: Iterable[float | None]) -> int:
    """Decimals that show the largest of the values with four significant digits, so that a column lines up."""
    largest = max((abs(v) for v in values if v is not None and math.isfinite(v)), default=0.0)
    return min(6, max(0, 3 - math.floor(math.log10(largest)))) if largest > 0 else 2


def number(value: float | None, places: int = 2, signed: bool = False) -> str:
    """Return a fixed number of decimals, thousands apart, a true minus sign; a dash for nothing.

    With a sign, what lies below 0 by less than a decimal shows still has a minus: -0.00.
    """
    if value is None or not math.isfinite(value):
        return DASH
    shown = value if signed else round(value, places)
    return f"{shown + 0.0:{'+' if signed else ''},.{places}f}".replace("-", MINUS)


def ratio(value: float) -> str:
    """Of costs, of which one may be infinite."""
    return number(value) if math.isfinite(value) else "not reached"


def interval(estimate: MeanInterval, places: int = 2, signed: bool = False, can_be_negative: bool = False) -> str:
    """low to high, or why there is none; "up to high" where too few seeds bound what is not negative from below.

    Without a sign it is of what cannot be negative, such as an FID, unless said otherwise.
    """
    if estimate.bounds is None:
        return "one seed, no interval"
    is_open_below = estimate.bounds[0] < 0 <= estimate.mean
    if is_open_below and not signed and not can_be_negative:
        return f"up to {number(estimate.bounds[1], places)}"
    return " to ".join(number(bound, places, signed) for bound in estimate.bounds)


def words(estimate: MeanInterval, places: int = 2) -> str:
    """Return a difference with its interval where there is little room: -2.40 [-3.00, -1.80]."""
    text = number(estimate.mean, places, signed=True)
    if estimate.bounds is None:
        return f"{text} (one seed)"
    low, high = (number(bound, places, signed=True) for bound in estimate.bounds)
    return f"{text} [{low}, {high}]"


def fid_difference(estimate: MeanInterval, places: int) -> str:
    """Return a difference in FID with its interval: -2.40 FID (-3.00 to -1.80)."""
    return f"{number(estimate.mean, places, True)} FID ({interval(estimate, places, True)})"


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def names(items: Iterable[str]) -> str:
    """a, b and c."""
    *first, last = [*items] or [""]
    return f"{', '.join(first)} and {last}" if first else last


def scaled_macs(largest: float) -> tuple[float, str]:
    """Divisor and unit that suit a number of MACs."""
    steps = [(1e3, "kMACs"), (1e6, "MMACs"), (1e9, "GMACs"), (1e12, "TMACs"), (1e15, "PMACs"), (1e18, "EMACs")]
    return next((step for step in reversed(steps) if largest >= step[0]), (1.0, "MACs"))


def millions(count: float | None) -> str:
    """Return a number of parameters."""
    return DASH if count is None else f"{count / 1e6:.3g}M"


def ratio_in_words(ratio: Ratio) -> str:
    """Return a ratio with its interval, or the bound that it is."""
    estimate = ratio.estimate
    if estimate is None:
        return "not known"
    if ratio.is_least or ratio.is_most:
        return f"at {'least' if ratio.is_least else 'most'} {estimate.mean:.3g}"
    if estimate.bounds is None:
        return f"{estimate.mean:.3g}, one seed"
    return f"{estimate.mean:.3g}, {estimate.bounds[0]:.3g} to {estimate.bounds[1]:.3g}"


FILTERS = {one.__name__: one for one in (names, number, plural)}  # of templates
