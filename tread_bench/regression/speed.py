"""The rules for speed: dense over routed step times, and step times in units of a probe of fixed work beside them.

Both are ratios of times that were measured side by side. New over old is 1 where nothing changed, below 1 where this
run is slower. It is a geometric mean, with Welch's interval at `CONFIDENCE`. A row fails where the ratio lies below the
rule's limit (Holm over the rows), passes where the whole interval lies above it, and is inconclusive otherwise.
`tests/regression/test_error_rates.py` measures both errors.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import chi2, ttest_ind

from tread_bench.core.numbers.statistics import holm
from tread_bench.core.stored.records import GpuConditions
from tread_bench.regression.baseline import CellFigures, Speed
from tread_bench.regression.findings import Finding, Verdict

LIMIT = 0.97  # of the speed-up: a loss of up to 3 % is not distinguishable from none
ABSOLUTE_LIMIT = 0.90  # of a step time against one stored earlier
CONFIDENCE = 0.99
PAIRS = 20
LARGEST_SPREAD = 0.02  # of pairs (standard deviation of log ratios) where a loss of 3 % is to be detected

CLOCK_SHARE = 0.05  # that a GPU's clock may change by while it is timed; boost moves in steps below 1 %
# What protects the device. A software power cap is not among these: under full load many GPUs are at their cap all the
# time, and its cost shows in the clock.
SLOWDOWNS = ("hardware slowdown", "hardware thermal slowdown", "hardware power brake", "software thermal slowdown")


def compare_speed(rows: Mapping[str, tuple[CellFigures, CellFigures]]) -> Iterator[Finding]:
    """Findings of every row that was timed both times; where its times cannot support a verdict, why."""
    timed = {row: (old.speed, new.speed) for row, (old, new) in rows.items() if old.speed and new.speed}
    in_probes = {}
    speedups = {}
    for row, pair in timed.items():
        old, new = rows[row]
        unfit = _unfit(old, new, pair)
        if unfit is None and all(side.probe_ms for side in pair):
            in_probes[row] = [-np.log(np.divide(side.step_times_ms, side.probe_ms or 1)) for side in pair]
        else:
            verdict, reason = unfit or (Verdict.SKIPPED, "no probe was timed beside both")
            before, now = map(_median, pair)
            yield Finding(row, "speed", "step time", verdict, before, now, reason)
        config = new.exact.get("config")
        if unfit is None and isinstance(config, dict) and config.get("routes"):
            speedups[row] = [np.log(np.divide(side.reference_step_times_ms, side.step_times_ms)) for side in pair]

    for row, (verdict, ratio) in judge(in_probes, ABSOLUTE_LIMIT).items():
        before, now = map(_median, timed[row])
        yield Finding(row, "speed", "step time", verdict, before, now, f"in units of the probe: {ratio}")
    for row, (verdict, ratio) in judge(speedups, LIMIT).items():
        before, now = (f"{np.exp(np.mean(side)):.3f}" for side in speedups[row])
        yield Finding(row, "speed", "dense / routed", verdict, before, now, ratio)


def judge(samples: Mapping[str, Sequence[ArrayLike]], limit: float) -> dict[str, tuple[Verdict, str]]:
    """Judge the logarithms of an accepted run and of a new one, row by row: the verdict, and their ratio in words.

    It is inconclusive where the lower bound of the spread, s·√((n − 1) / χ²) at `CONFIDENCE` (normal noise), is too
    large for the limit: 2 % for a loss of 3 %, and in proportion.
    """
    largest = LARGEST_SPREAD * (1 - limit) / (1 - LIMIT)
    raw = []
    for old, new in samples.values():
        beside_limit = np.asarray(new) - math.log(limit)
        raw.append(float(ttest_ind(beside_limit, old, equal_var=False, alternative="less").pvalue))
    judged = {}
    for (row, (old, new)), p_value in zip(samples.items(), holm(raw), strict=True):
        low, high = np.exp(ttest_ind(new, old, equal_var=False).confidence_interval(CONFIDENCE))
        spread = max(float(np.asarray(side).std(ddof=1)) for side in (old, new))
        freedom = min(np.size(old), np.size(new)) - 1
        is_noisy = spread * math.sqrt(freedom / float(chi2.ppf(CONFIDENCE, freedom))) > largest
        verdict = Verdict.INCONCLUSIVE
        if p_value <= (1 - CONFIDENCE) / 2 and not is_noisy:
            verdict = Verdict.FAIL
        elif low > limit and not is_noisy:
            verdict = Verdict.PASS
        judged[row] = (verdict, f"{low:.3f} to {high:.3f} of the accepted, where times vary by {spread:.1%}")
    return judged


def _unfit(old: CellFigures, new: CellFigures, pair: tuple[Speed, Speed]) -> tuple[Verdict, str] | None:
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


def _median(speed: Speed) -> str:
    return f"{np.median(speed.step_times_ms):.2f} ms"
