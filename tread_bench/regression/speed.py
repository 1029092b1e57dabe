"""Stored step times against stored ones, by a rule with known error rates.

Within a run, the speed-up of a routed row over the dense steps beside it is compared with that of the accepted run: the
ratio of the two is 1 without a change, and below 1 where routing gains less. A row fails where the upper bound of the
ratio's 99 % interval lies below `LIMIT` (Holm over the rows), passes where the whole interval lies above it, and is
inconclusive otherwise. `tests/regression/test_error_rates.py` measures both errors. Step times themselves are compared
in units of the probe of fixed work beside them, with a wide limit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import chi2

from tread_bench.core.numbers.statistics import holm
from tread_bench.core.stored.records import GpuConditions
from tread_bench.regression.baseline import CellFigures, Speed
from tread_bench.regression.findings import Finding, Verdict

LIMIT = 0.97  # a loss of speed-up of up to 3 % is not distinguishable from none
ABSOLUTE_LIMIT = 0.90  # of a step time against one stored earlier, both in units of the probe beside it
CONFIDENCE = 0.99
PAIRS = 20
LARGEST_SPREAD = 0.02  # of pairs (standard deviation of log ratios) where a loss of 3 % is to be detected
_TAIL = (1 - CONFIDENCE) / 2
_RESAMPLES = 9_999  # at least; Holm over many cells needs p-values of a finer resolution
_RESAMPLES_PER_CELL = 400  # so that the smallest adjusted p-value, cells / (resamples + 1), is half of _TAIL

CLOCK_SHARE = 0.05  # that a GPU's clock may change by while it is timed; boost moves in steps below 1 %
# What protects the device. A software power cap is not among these: under full load many GPUs are at their cap all the
# time, and its cost shows in the clock.
SLOWDOWNS = ("hardware slowdown", "hardware thermal slowdown", "hardware power brake", "software thermal slowdown")

Pair = tuple[Speed, Speed]  # accepted, measured


class SpeedJudgement(NamedTuple):
    """99 % bootstrap interval of the ratio new / old of median speed-ups, and what follows."""

    verdict: Verdict
    low: float
    high: float


def compare_speed(rows: Mapping[str, tuple[CellFigures, CellFigures]]) -> Iterator[Finding]:
    """Findings of every row that was timed both times; where its times cannot support a verdict, why."""
    # Step times in units of the probe.
    routed: dict[str, Pair] = {}
    for row, (old, new) in rows.items():
        if not old.speed or not new.speed:
            continue
        pair = (old.speed, new.speed)
        unfit = _unfit(old, new, pair)
        verdict, reason = unfit or _in_probes(pair)
        before, now = (f"{_median_ms(side):.2f} ms" for side in pair)
        yield Finding(row, "speed", "step time", verdict, before, now, reason)
        config = new.exact.get("config")
        if not unfit and isinstance(config, dict) and config.get("routes"):
            routed[row] = pair

    # Dense over routed steps within a run, against the same ratio of the other run.
    logs = {row: (_log_speedups(old), _log_speedups(new)) for row, (old, new) in routed.items()}
    noise = {row: _noise(pair, LIMIT) for row, pair in routed.items()}
    judged = judge({row: sides for row, sides in logs.items() if not noise[row]})
    for row, sides in logs.items():
        verdict, reason = Verdict.INCONCLUSIVE, noise[row]
        if one := judged.get(row):
            verdict, reason = one.verdict, f"ratio of the two {one.low:.3f} to {one.high:.3f}"
        before, now = (f"{math.exp(float(np.median(side))):.3f}" for side in sides)
        yield Finding(row, "speed", "dense / routed", verdict, before, now, reason)


def judge(samples: Mapping[str, tuple[ArrayLike, ArrayLike]]) -> dict[str, SpeedJudgement]:
    """Judge the log speed-ups of an accepted run and of a new one, row by row."""
    # The shift of each row's median, in resamples.
    resamples = max(_RESAMPLES, _RESAMPLES_PER_CELL * len(samples))
    boots = {}
    for row, (old, new) in samples.items():
        boots[row] = _bootstrap_medians(new, resamples, 1) - _bootstrap_medians(old, resamples, 0)

    # The verdict on each.
    raw = [float((1 + np.count_nonzero(boot >= math.log(LIMIT))) / (1 + len(boot))) for boot in boots.values()]
    judged = {}
    for (row, boot), p_value in zip(boots.items(), holm(raw), strict=True):
        low, high = np.exp(np.quantile(boot, [_TAIL, 1 - _TAIL]))
        verdict = Verdict.INCONCLUSIVE
        if p_value <= _TAIL:
            verdict = Verdict.FAIL
        elif low > LIMIT:
            verdict = Verdict.PASS
        judged[row] = SpeedJudgement(verdict, float(low), float(high))
    return judged


def _bootstrap_medians(values: ArrayLike, resamples: int, seed: int) -> NDArray[np.float64]:
    """Medians of resamples with replacement (Efron 1979); the same values give the same ones, in any order."""
    sample = np.sort(np.asarray(values, dtype=np.float64))
    lower, upper = _middle_ranks(len(sample), resamples, seed)
    return (sample[lower] + sample[upper]) / 2


@lru_cache(maxsize=8)
def _middle_ranks(count: int, resamples: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Which of `count` values in ascending order are the middle ones of each resample: drawn once for all samples."""
    drawn = np.random.default_rng(seed).integers(count, size=(resamples, count))
    lower, upper = (count - 1) // 2, count // 2
    drawn.partition((lower, upper), axis=1)
    return drawn[:, lower].copy(), drawn[:, upper].copy()


def _unfit(old: CellFigures, new: CellFigures, pair: Pair) -> tuple[Verdict, str] | None:
    """Why step times cannot support a verdict: another machine, too few pairs, or a GPU that changed."""
    # Any CPU may check what does not depend on the CPU; a GPU that was replaced is reported.
    machine = old.conditions.get("device_name")
    if machine != new.conditions.get("device_name"):
        has_gpu = "cuda" in (old.conditions.get("device"), new.conditions.get("device"))
        verdict = Verdict.INCONCLUSIVE if has_gpu else Verdict.SKIPPED
        return verdict, f"accepted on another machine, {machine}"

    # Fewer pairs than accepted would switch the gate off.
    before, now = (len(side.step_times_ms) for side in pair)
    if min(before, now) < PAIRS:
        verdict = Verdict.FAIL if before >= PAIRS else Verdict.SKIPPED
        return verdict, f"only {min(before, now)} pairs are timed: a verdict needs {PAIRS} or more"

    for when, side in zip(("when accepted", "now"), pair, strict=True):
        if changes := moved(side.gpu_before, side.gpu_after):
            return Verdict.INCONCLUSIVE, f"the GPU, {when}: {'; '.join(changes)}"
    return None


def moved(before: GpuConditions | None, after: GpuConditions | None) -> list[str]:
    """In words, what disturbed a measurement between two readings; empty where nothing did or nothing was read."""
    if before is None or after is None:
        return []
    changes = []
    was, now = before.sm_clock_mhz, after.sm_clock_mhz
    if was and now and abs(now - was) > CLOCK_SHARE * was:
        changes.append(f"its clock went from {was} to {now} MHz")
    seen = {*(before.throttle_reasons or ()), *(after.throttle_reasons or ())}
    if slowed := [reason for reason in SLOWDOWNS if reason in seen]:
        changes.append(f"it was throttled ({', '.join(slowed)})")
    if others := max(before.other_processes or 0, after.other_processes or 0):
        changes.append(f"other processes computed on it ({others})")
    return changes


def _in_probes(pair: Pair) -> tuple[Verdict, str]:
    accepted, measured = pair
    if not accepted.probe_ms or not measured.probe_ms:
        return Verdict.SKIPPED, "no probe was timed beside both"
    if noise := _noise(pair, ABSOLUTE_LIMIT):
        return Verdict.INCONCLUSIVE, noise
    ratio = (_median_ms(accepted) / accepted.probe_ms) / (_median_ms(measured) / measured.probe_ms)
    verdict = Verdict.PASS if ratio >= ABSOLUTE_LIMIT else Verdict.FAIL
    return verdict, f"in units of the probe {ratio:.3f}; at least {ABSOLUTE_LIMIT:g} passes"


def _median_ms(speed: Speed) -> float:
    return float(np.median(speed.step_times_ms))


def _log_speedups(speed: Speed) -> list[float]:
    pairs = zip(speed.reference_step_times_ms, speed.step_times_ms, strict=True)
    return [math.log(dense / own) for dense, own in pairs]


def _noise(pair: Pair, limit: float) -> str:
    """How much the pairs of one of the two vary, where that is too much to detect a loss down to `limit`.

    It is where the lower bound of the spread's interval, s·√((n − 1) / χ²) at `CONFIDENCE` (normal noise), exceeds the
    largest spread: 2 % for a loss of 3 %, and in proportion. Else half of all runs at exactly that spread are unfit.
    """
    largest = LARGEST_SPREAD * (1 - limit) / (1 - LIMIT)
    for when, side in zip(("when accepted", "now"), pair, strict=True):
        logs = _log_speedups(side)
        freedom = len(logs) - 1
        spread = float(np.std(logs, ddof=1))
        if spread * math.sqrt(freedom / float(chi2.ppf(CONFIDENCE, freedom))) > largest:
            return f"{when}, its pairs vary by {spread:.1%}: more than {largest:.1%}"
    return ""
