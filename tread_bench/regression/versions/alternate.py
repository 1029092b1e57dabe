"""Old and new in turn, A B B A, until the rule can decide or the pairs run out."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from tread_bench.regression.baseline.findings import Finding, Verdict
from tread_bench.regression.baseline.speed_rule import MOST_PAIRS, PAIRS, SpeedJudgement, is_fit, judge_speed, spread

Window = Callable[[bool], Mapping[str, float]]  # (of the new version) -> row -> step time in ms


@dataclass
class Timings:
    """Step times in the order taken: (of the new version, row -> ms)."""

    windows: list[tuple[bool, Mapping[str, float]]] = field(default_factory=list)

    @property
    def pairs(self) -> int:
        return len(self.windows) // 2

    def take_pair(self, window: Window) -> None:
        """Old then new, and the other way round every second time, so that drift affects both alike."""
        first = self.pairs % 2 == 1
        for is_new in (first, not first):
            self.windows.append((is_new, window(is_new)))

    def log_ratios(self) -> dict[str, list[float]]:
        """Row -> log(old / new) of every pair, for the rows that both versions have."""
        pairs = [dict(self.windows[k : k + 2]) for k in range(0, 2 * self.pairs, 2)]
        ratios = {}
        for row in self.windows[0][1]:
            if all(row in times for _, times in self.windows):
                ratios[row] = [math.log(pair[False][row] / pair[True][row]) for pair in pairs]
        return ratios

    def middle(self, row: str, is_new: bool) -> float:
        """Return the median step time of one version, in ms."""
        times = sorted(times[row] for which, times in self.windows if which == is_new)
        return times[self.pairs // 2]

    def control(self) -> dict[str, list[float]]:
        """Row -> log ratios of neighbouring windows of one version: how no change looks, at the same distance."""
        rows = self.log_ratios()
        alike = [(a, b) for (one, a), (other, b) in pairwise(self.windows) if one == other]
        return {row: [math.log(a[row] / b[row]) for a, b in alike] for row in rows}


def alternate(window: Window, progress: Callable[[int], None] = lambda pairs: None) -> Timings:
    """20 pairs, and up to 60 while a row is inconclusive and the machine quiet; `progress` gets their number."""
    timings = Timings()
    while timings.pairs < MOST_PAIRS:
        timings.take_pair(window)
        progress(timings.pairs)
        if timings.pairs % PAIRS == 0 and not _is_any_open(timings):
            break
    return timings


def _is_any_open(timings: Timings) -> bool:
    """Whether more pairs may decide a row."""
    control = timings.control()
    judged = judge_speed(timings.log_ratios())
    return any(one.verdict is Verdict.INCONCLUSIVE and is_fit(control[row]) for row, one in judged.items())


def findings(timings: Timings, disturbed: Mapping[str, Sequence[str]] | None = None) -> list[Finding]:
    """Return a finding per row; where the control shows noise, or windows were `disturbed`, the row gets no verdict.

    Args:
        disturbed: what happened to the device while a row was timed, one text per disturbed window.
    """
    control = timings.control()
    judged = judge_speed(timings.log_ratios())
    return [_finding(row, one, control[row], timings, (disturbed or {}).get(row, ())) for row, one in judged.items()]


def _finding(
    row: str, judged: SpeedJudgement, control: list[float], timings: Timings, disturbed: Sequence[str]
) -> Finding:
    verdict = judged.verdict if is_fit(control) and not disturbed else Verdict.UNFIT
    old, new = (timings.middle(row, is_new=is_new) for is_new in (False, True))
    reason = (
        f"speed {judged.ratio:.3f} of the old one ({judged.low:.3f} to {judged.high:.3f}, {judged.pairs} pairs); "
        f"a version against itself varies by {spread(control):.1%}"
    )
    if disturbed:
        reason += f"; the GPU changed in {len(disturbed)} of {len(timings.windows)} windows, first: {disturbed[0]}"
    return Finding(row, "speed", "step time", verdict, f"{old:.2f} ms", f"{new:.2f} ms", reason)
