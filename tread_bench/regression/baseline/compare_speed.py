"""Stored step times against stored ones: ratios within a run narrowly, times in units of a probe widely."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np
from pydantic import JsonValue

from tread_bench.regression.baseline.baseline import CellFigures, Speed
from tread_bench.regression.baseline.findings import Finding, Verdict
from tread_bench.regression.baseline.gpu_rule import changed, moved
from tread_bench.regression.baseline.speed_rule import (
    LIMIT,
    PAIRS,
    is_fit,
    judge_shift,
    largest_spread,
    spread,
)

ABSOLUTE_LIMIT = 0.90  # of a step time against one stored earlier, both in units of the probe beside it

Pair = tuple[Speed, Speed]  # accepted, measured


def compare_speed(rows: Mapping[str, tuple[CellFigures, CellFigures]]) -> list[Finding]:
    """Findings of every row that was timed both times; where its times cannot support a verdict, why."""
    # Times that were measured in only one of the two.
    findings: list[Finding] = []
    for row, (old, new) in rows.items():
        findings += _presence(row, old, new)

    # Times that cannot support a verdict.
    fit: dict[str, Pair] = {}
    for row, (old, new) in rows.items():
        if not old.speed or not new.speed:
            continue
        pair = (old.speed, new.speed)
        unfit = _elsewhere(old.conditions, new.conditions) or _too_few(*pair) or _disturbed(*pair)
        if unfit is None:
            fit[row] = pair
        else:
            findings.append(_step_time(row, pair, *unfit))

    # Routed rows beside dense, and all in units of the probe.
    findings += _ratios({row: pair for row, pair in fit.items() if _is_routed(rows[row][1])})
    for row, (was, now) in fit.items():
        if now.probe_ms or not was.probe_ms:
            findings.append(_in_probes(row, (was, now)))
    return findings


def _is_routed(figures: CellFigures) -> bool:
    config = figures.exact.get("config")
    return isinstance(config, dict) and bool(config.get("routes"))


def _presence(row: str, old: CellFigures, new: CellFigures) -> Iterator[Finding]:
    """What was once measured must not vanish unnoticed."""
    if old.speed and not new.speed:
        yield Finding(row, "presence", "step time", Verdict.FAIL, "timed", "absent", "it is not timed any more")
    if old.speed and new.speed and old.speed.probe_ms and not new.speed.probe_ms:
        yield Finding(row, "presence", "probe", Verdict.FAIL, "timed", "absent", "it is not timed any more")
    if new.speed and not old.speed:
        yield Finding(row, "presence", "step time", Verdict.SKIPPED, "absent", "timed", "the baseline has no step time")


def _elsewhere(old: Mapping[str, JsonValue], new: Mapping[str, JsonValue]) -> tuple[Verdict, str] | None:
    """Any CPU may check what does not depend on the CPU; a GPU that was replaced is reported."""
    where = old.get("device_name")
    has_gpu = "cuda" in (old.get("device"), new.get("device"))
    if where == new.get("device_name"):
        return None
    return (Verdict.UNFIT if has_gpu else Verdict.SKIPPED), f"accepted on another machine, {where}"


def _too_few(old: Speed, new: Speed) -> tuple[Verdict, str] | None:
    before, now = (len(side.step_times_ms) for side in (old, new))
    if min(before, now) >= PAIRS:
        return None
    verdict = Verdict.FAIL if before >= PAIRS else Verdict.SKIPPED  # fewer than accepted would switch the gate off
    return verdict, f"only {min(before, now)} pairs are timed: a verdict needs {PAIRS} or more"


def _disturbed(old: Speed, new: Speed) -> tuple[Verdict, str] | None:
    """What happened to the GPU while one of the two was timed, or between them."""
    found = [f"when accepted: {what}" for what in moved(old.gpu_before, old.gpu_after)]
    found += [f"now: {what}" for what in moved(new.gpu_before, new.gpu_after)]
    found += changed(old.gpu_after, new.gpu_after)
    return (Verdict.UNFIT, f"the GPU: {'; '.join(found)}") if found else None


def _noise(pair: Pair, limit: float) -> str:
    """How much the pairs of one of the two vary, where that is too much to detect a loss down to `limit`."""
    for when, side in zip(("when accepted", "now"), pair, strict=True):
        logs = _log_ratios(side)
        if not is_fit(logs, limit):
            return f"{when}, its pairs vary by {spread(logs):.1%}: more than {largest_spread(limit):.1%}"
    return ""


def _ratios(pairs: Mapping[str, Pair]) -> Iterator[Finding]:
    """Dense over routed within a run, against the same ratio of the other run."""
    logs = {row: (_log_ratios(old), _log_ratios(new)) for row, (old, new) in pairs.items()}
    noise = {row: _noise(pair, LIMIT) for row, pair in pairs.items()}
    judged = judge_shift({row: sides for row, sides in logs.items() if not noise[row]})
    for row, sides in logs.items():
        before, now = (f"{math.exp(float(np.median(side))):.3f}" for side in sides)
        if noise[row]:
            verdict, reason = Verdict.UNFIT, noise[row]
        else:
            one = judged[row]
            verdict, reason = one.verdict, f"ratio of the two {one.ratio:.3f} ({one.low:.3f} to {one.high:.3f})"
        yield Finding(row, "speed", "dense / routed", verdict, before, now, reason)


def _log_ratios(speed: Speed) -> list[float]:
    pairs = zip(speed.reference_step_times_ms, speed.step_times_ms, strict=True)
    return [math.log(dense / own) for dense, own in pairs]


def _in_probes(row: str, pair: Pair) -> Finding:
    """A step time in units of the probe beside it; a presence finding reports a probe that vanished."""
    if not pair[0].probe_ms:
        return _step_time(row, pair, Verdict.SKIPPED, "no probe was timed beside it when it was accepted")
    noise = _noise(pair, ABSOLUTE_LIMIT)
    if noise:
        return _step_time(row, pair, Verdict.UNFIT, noise)
    before, now = (float(np.median(side.step_times_ms)) / (side.probe_ms or math.nan) for side in pair)
    ratio = before / now
    verdict = Verdict.PASS if ratio >= ABSOLUTE_LIMIT else Verdict.FAIL
    return _step_time(row, pair, verdict, f"in units of the probe {ratio:.3f}; at least {ABSOLUTE_LIMIT:g} passes")


def _step_time(row: str, pair: Pair, verdict: Verdict, reason: str) -> Finding:
    before, now = (f"{float(np.median(side.step_times_ms)):.2f} ms" for side in pair)
    return Finding(row, "speed", "step time", verdict, before, now, reason)
