"""Where a series of runs changed permanently: a rule with known error rates.

A series is cut where that lowers, over all segments, the sum of |x - median of its segment| by more than a penalty per
cut (PELT: Killick, Fearnhead and Eckley 2012). Absolute deviations, since with squares one bad run makes a change.

    penalty = max(PENALTY * noise, MIN_SEGMENT * relevant),   noise = 1.4826 / sqrt(2) * median |x_i - x_(i-1)|

`noise` is the standard deviation of one run where noise is Gaussian; a step hardly moves the median. `relevant` is the
smallest step that matters: a smaller one is not a change, however certain. Nor is a cut that would fit better a run
further on, where a segment would be too short. So

- a change is reported when `MIN_SEGMENT` runs have followed it, and one or two bad runs are not a change;
- below `MIN_RUNS` runs nothing is reported, since the noise is not known;
- under independent noise, Gaussian or with the tails of Student's t with 3 degrees of freedom, and with one bad run
  among them, a change is reported falsely in about 0.2 % of the series of 8 to 100 runs; a step of four times the
  noise with 18 runs before and 12 after it is found in at least 99 %, one of three times the noise in 90 %;
- the place of a step that is small against the noise may be a run or two off;
- where most runs are equal bit for bit, the noise is 0, and every relevant step that lasts is reported;
- noise that drifts from run to run is not distinguished from change.

`tests/regression/history/test_change_points.py` measures both errors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tread_bench.core.errors import UserError

MIN_RUNS = 8
MIN_SEGMENT = 3
PENALTY = 12.0  # of a cut, in units of the noise of one run


@dataclass(frozen=True, slots=True)
class Segment:
    """Runs `start` to `stop` (exclusive) of a series, and their median."""

    start: int
    stop: int
    level: float


def noise_of(values: ArrayLike) -> float:
    """Standard deviation of one run, from the median absolute first difference; steps and bad runs hardly move it."""
    steps = np.abs(np.diff(np.asarray(values, dtype=np.float64)))
    return float(1.4826 / math.sqrt(2) * np.median(steps))


def segments(values: Sequence[float], relevant: float) -> list[Segment]:
    """Return the segments of a noisy series by the rule above; one segment if nothing changed. `relevant` is positive.

    Raises:
        ValueError: fewer than `MIN_RUNS` values.
        UserError: ruptures is not installed.
    """
    if len(values) < MIN_RUNS:
        raise ValueError(f"{len(values)} runs: at least {MIN_RUNS} are needed to tell a change from noise")
    try:
        import ruptures  # takes a second
    except ImportError:
        raise UserError("`ci history` of this many runs needs ruptures: pip install 'tread-bench[ci]'") from None

    x = np.asarray(values, dtype=np.float64)
    penalty = max(PENALTY * noise_of(x), MIN_SEGMENT * relevant)
    found = ruptures.Pelt(model="l1", min_size=MIN_SEGMENT, jump=1).fit(x[:, None]).predict(pen=penalty)
    return _lasting(x, [0, *found], relevant)


def _lasting(x: NDArray[np.float64], borders: list[int], relevant: float) -> list[Segment]:
    """Remove the smallest step, repeatedly, until every remaining one matters."""
    while True:
        steps = [_step(x[a:c], b - a) for a, b, c in zip(borders, borders[1:], borders[2:], strict=False)]
        if not steps or min(steps) >= relevant:
            return [Segment(a, b, float(np.median(x[a:b]))) for a, b in pairwise(borders)]
        del borders[1 + steps.index(min(steps))]


def _step(x: NDArray[np.float64], at: int) -> float:
    """From one median to the next; 0 where the cut would fit better further on, next to a segment that is too short."""
    fits = {k: _spread(x[:k]) + _spread(x[k:]) for k in (at - 1, at, at + 1)}
    return float(abs(np.median(x[at:]) - np.median(x[:at]))) if fits[at] <= min(fits.values()) else 0.0


def _spread(x: NDArray[np.float64]) -> float:
    return float(np.abs(x - np.median(x)).sum())


def exact_segments(values: Sequence[float]) -> list[Segment]:
    """Return the segments of a series without noise: every change is one."""
    cut = []
    start = 0
    for level, members in groupby(values):
        stop = start + len([*members])
        cut.append(Segment(start, stop, level))
        start = stop
    return cut
