"""A run against a baseline: each kind of figure by the rule that suits it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import JsonValue

from tread_bench.core.describe.metrics import known_figures
from tread_bench.core.numbers.statistics import mean_interval
from tread_bench.core.stored.conditions import BLAS_KERNELS, LINEAR_ALGEBRA_TOLERANCE, is_same_figure
from tread_bench.regression.baseline.baseline import MARGIN, QUALITY, Baseline, CellFigures
from tread_bench.regression.baseline.compare_speed import compare_speed
from tread_bench.regression.baseline.findings import Finding, Verdict

MEMORY_SHARE = 0.01  # a CUDA allocator's peak may grow by this share and
MEMORY_MIB = 8.0  # by this much in addition
_NO_BITS = ("tread-bench", BLAS_KERNELS)  # conditions that need not match for equal bits of weights and losses

# Of the conditions, what is configuration: set by the suite, or resolved on the machine where the suite says auto.
_SET = ("threads", "autocast", "compile", "gradient_checkpointing", "micro_batch")
_RESOLVED = ("matmul_precision", "tf32", "kernels")

Cells = Mapping[str, CellFigures]


def compare(baseline: Baseline, cells: Cells, reasons: Mapping[str, str]) -> list[Finding]:
    """Return every finding, cell by cell.

    Args:
        reasons: why a cell of the run failed, by "row seed".
    """
    # Cells that only one of the two has.
    findings = list(_presence(baseline.cells, cells, reasons))

    # Figures of each cell that must not differ.
    shared = {name: (old, cells[name]) for name, old in baseline.cells.items() if name in cells}
    for name, (old, new) in shared.items():
        findings += _exact(name, old, new)

    # Memory and speed of each row, which its seeds share; quality of each row over its seeds.
    rows = {_row(name): pair for name, pair in reversed(shared.items())}
    for row, (old, new) in rows.items():
        findings += _memory(row, old, new)
    findings += compare_speed(rows)
    findings += _quality(shared, baseline.margins)
    return sorted(findings, key=lambda finding: finding.cell)


def _row(name: str) -> str:
    return name.rpartition(" seed ")[0]


def _presence(old: Cells, new: Cells, reasons: Mapping[str, str]) -> Iterator[Finding]:
    for name in (old.keys() | new.keys() | reasons.keys()) - (old.keys() & new.keys()):
        before = "present" if name in old else "absent"
        if name in new:
            now, reason = "present", "new"
        elif name in reasons:
            now, reason = "failed", reasons[name]
        else:
            now, reason = "absent", "vanished: the run no longer has this cell"
        yield Finding(name, "presence", "cell", Verdict.FAIL, before, now, reason)


def _exact(name: str, old: CellFigures, new: CellFigures) -> Iterator[Finding]:
    before, now = (flat({**side.exact, "compute": _compute(side.conditions)}) for side in (old, new))
    changed = [key for key in sorted(before.keys() | now.keys()) if before.get(key) != now.get(key)]
    for key in changed:
        was, is_now = _texts(before.get(key, "absent"), now.get(key, "absent"))
        verdict, reason = _of_change(key, old.conditions, new.conditions)
        yield Finding(name, "exact", key, verdict, was, is_now, reason)
    if not changed:
        yield Finding(name, "exact", f"{len(now)} figures", Verdict.PASS, "", "", "all equal")


def _of_change(key: str, old: Mapping[str, JsonValue], new: Mapping[str, JsonValue]) -> tuple[Verdict, str]:
    """Weights are drawn on the CPU, and the last bits of a logarithm depend on its instructions."""
    was = old.get("cpu_capability")
    now = new.get("cpu_capability")
    if key == "initial_weights_sha256" and was != now:
        return Verdict.SKIPPED, f"drawn on a CPU with {now}, accepted from one with {was}: the last bits may differ"
    is_resolved = key.startswith(tuple(f"compute.{name}" for name in _RESOLVED))
    if is_resolved and (was, old.get("device_name")) != (now, new.get("device_name")):
        return Verdict.SKIPPED, f"resolved on another machine, {new.get('device_name')}"
    return Verdict.FAIL, "must not differ"


def _compute(conditions: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    return {name: conditions[name] for name in (*_SET, *_RESOLVED) if name in conditions}


def _texts(was: Any, now: Any) -> tuple[str, str]:
    """Floats with six digits, or with all where six do not distinguish them."""
    if isinstance(was, float) and isinstance(now, float) and was != now and f"{was:.6g}" == f"{now:.6g}":
        return repr(was), repr(now)
    return _text(was), _text(now)


def _text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def flat(value: JsonValue, path: str = "") -> dict[str, JsonValue]:
    """Leaves by dotted path."""
    if not isinstance(value, dict):
        return {path: value}
    return {k: leaf for key, item in value.items() for k, leaf in flat(item, f"{path}.{key}".lstrip(".")).items()}


def _memory(name: str, old: CellFigures, new: CellFigures) -> Iterator[Finding]:
    before = old.peak_memory_mib
    now = new.peak_memory_mib
    if before is not None and now is None:
        reason = "it is not measured any more"
        yield Finding(name, "presence", "peak memory", Verdict.FAIL, _mib(before), "absent", reason)
    if before is None or now is None or (old.memory_kind, new.memory_kind) != ("allocator", "allocator"):
        return
    allowed = before * (1 + MEMORY_SHARE) + MEMORY_MIB
    verdict = Verdict.PASS if now <= allowed else Verdict.FAIL
    yield Finding(name, "memory", "peak", verdict, _mib(before), _mib(now), f"allowed up to {_mib(allowed)}")


def _quality(shared: Mapping[str, tuple[CellFigures, CellFigures]], margins: Mapping[str, float]) -> Iterator[Finding]:
    rows: dict[str, list[tuple[CellFigures, CellFigures]]] = {}
    for name, (old, new) in shared.items():
        if _bits_compare(old, new):
            yield _bits(name, old, new)
        else:
            rows.setdefault(_row(name), []).append((old, new))
    for row, seeds in rows.items():
        for metric in _measured(*(side for pair in seeds for side in pair)):
            unstated = 0.0 if metric in QUALITY else MARGIN
            yield from _over_seeds(row, metric, seeds, margins.get(metric, unstated))


def _measured(*sides: CellFigures) -> list[str]:
    """The figures of quality that any of them has: those of every cell, then those of metrics that suites added."""
    found = {name for side in sides for name in side.quality}
    return [*(name for name in QUALITY if name in found), *sorted(found.difference(QUALITY))]


def _bits_compare(old: CellFigures, new: CellFigures) -> bool:
    """On a CPU, under conditions that give the same bits. Another configuration or network has other bits."""
    before, now = ({k: v for k, v in side.conditions.items() if k not in _NO_BITS} for side in (old, new))
    if before != now or now.get("device") != "cpu":
        return False
    return old.exact == new.exact or not _other_bits(old, new)


def _other_bits(old: CellFigures, new: CellFigures) -> list[str]:
    """What differs under equal conditions: weights and losses bit for bit, figures of linear algebra nearly."""
    metrics = _measured(old, new)
    names = [name for name in metrics if not is_same_figure(name, old.quality.get(name), new.quality.get(name))]
    return [*(["final weights"] if old.final_weights_sha256 != new.final_weights_sha256 else []), *names]


def _bits(name: str, old: CellFigures, new: CellFigures) -> Finding:
    other = _other_bits(old, new)
    texts = {m: _texts(old.quality.get(m, "absent"), new.quality.get(m, "absent")) for m in _measured(old, new)}
    was, now = (", ".join(f"{metric} {sides[k]}" for metric, sides in texts.items()) for k in (0, 1))
    if other:
        reason = f"{', '.join(other)}: different bits under the same build, CPU capability and threads"
    elif old.quality == new.quality:
        reason = "equal bits"
    else:
        kernels = (str(side.conditions.get(BLAS_KERNELS, "unknown")) for side in (old, new))
        rule = f"equal weights and losses; figures of linear algebra within {LINEAR_ALGEBRA_TOLERANCE:g}"
        reason = f"{rule} (BLAS kernels: {', now '.join(kernels)})"
    return Finding(name, "quality", "bits", Verdict.FAIL if other else Verdict.PASS, was, now, reason)


def _over_seeds(
    row: str, metric: str, seeds: list[tuple[CellFigures, CellFigures]], margin: float
) -> Iterator[Finding]:
    values = [(old.quality.get(metric), new.quality.get(metric)) for old, new in seeds]
    complete = [(old, new) for old, new in values if old is not None and new is not None]
    if any(old is not None and new is None for old, new in values):
        yield Finding(row, "presence", metric, Verdict.FAIL, "measured", "absent", "it is not measured any more")
    if complete:
        yield _within_margin(row, metric, complete, margin)


def _within_margin(row: str, metric: str, values: list[tuple[float, float]], margin: float) -> Finding:
    """Seeds are paired; a loss is better where it is lower, and a metric says which of two values is."""
    accepted = mean_interval([old for old, _ in values]).mean
    difference = mean_interval([new - old for old, new in values])
    allowed = margin * abs(accepted)
    measured = f"{accepted + difference.mean:.4g}"
    figure = known_figures().get(metric)
    if figure is None and metric not in QUALITY:
        reason = "its metric is not installed here, so that nobody says whether lower or higher is better"
        return Finding(row, "quality", metric, Verdict.SKIPPED, f"{accepted:.4g}", measured, reason)
    if difference.bounds is None:
        reason = "one seed has no interval: two or more are needed"
        return Finding(row, "quality", metric, Verdict.SKIPPED, f"{accepted:.4g}", measured, reason)
    low, high = difference.bounds
    least, most = (-high, -low) if figure and not figure.lower_is_better else (low, high)  # how much worse it is
    verdict = Verdict.FAIL if least > allowed else Verdict.PASS if most <= allowed else Verdict.INCONCLUSIVE
    reason = f"difference {low:+.4g} to {high:+.4g} over {difference.n} seeds; margin {allowed:.4g}"
    return Finding(row, "quality", metric, verdict, f"{accepted:.4g}", measured, reason)


def _mib(value: float) -> str:
    return f"{value:,.1f} MiB"
