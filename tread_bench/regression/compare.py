"""A run against a baseline: each kind of figure by the rule that suits it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pydantic import JsonValue

from tread_bench.core.describe.metrics import known_figures
from tread_bench.core.numbers.statistics import mean_interval
from tread_bench.core.stored.conditions import BLAS_KERNELS, is_same_figure
from tread_bench.regression.baseline import MARGIN, QUALITY, Baseline, CellFigures
from tread_bench.regression.findings import Finding, Verdict
from tread_bench.regression.speed import compare_speed

MEMORY_SHARE = 0.01  # a CUDA allocator's peak may grow by this share and
MEMORY_MIB = 8.0  # by this much in addition
_NO_BITS = ("tread-bench", BLAS_KERNELS)  # conditions that need not match for equal bits of weights and losses

# Of the conditions, what is configuration: set by the suite, or resolved on the machine where the suite says auto.
_SET = ("threads", "autocast", "compile", "gradient_checkpointing", "micro_batch")
_RESOLVED = ("matmul_precision", "tf32", "kernels")

Cells = Mapping[str, CellFigures]
Pair = tuple[CellFigures, CellFigures]  # accepted, measured


def compare(baseline: Baseline, cells: Cells, reasons: Mapping[str, str]) -> list[Finding]:
    """Return every finding, cell by cell.

    Args:
        reasons: why a cell of the run failed, by "row seed".
    """
    # Cells that only one of the two has.
    findings = []
    for name in (baseline.cells.keys() ^ cells.keys()) | reasons.keys():
        before, now = ("present" if name in side else "absent" for side in (baseline.cells, cells))
        reason = reasons.get(name) or ("new" if name in cells else "vanished: the run no longer has this cell")
        findings.append(Finding(name, "presence", "cell", Verdict.FAIL, before, now, reason))

    # Figures of each cell that must not differ, and those that are no longer measured.
    shared = {name: (old, cells[name]) for name, old in baseline.cells.items() if name in cells}
    for name, pair in shared.items():
        findings += _exact(name, *pair)
        for figure in sorted(_measured(pair[0]) - _measured(pair[1])):
            reason = "it is not measured any more"
            findings.append(Finding(name, "presence", figure, Verdict.FAIL, "measured", "absent", reason))

    # Memory and speed of each row, which its seeds share; quality of each row over its seeds.
    rows = {_row(name): pair for name, pair in reversed(shared.items())}
    for row, pair in rows.items():
        findings += _memory(row, *pair)
    findings += compare_speed(rows)
    findings += _quality(shared, baseline.margins)
    return sorted(findings, key=lambda finding: finding.cell)


def flat(value: JsonValue, path: str = "") -> dict[str, JsonValue]:
    """Leaves by dotted path."""
    if not isinstance(value, dict):
        return {path: value}
    return {k: leaf for key, item in value.items() for k, leaf in flat(item, f"{path}.{key}".lstrip(".")).items()}


def _row(name: str) -> str:
    return name.rpartition(" seed ")[0]


def _measured(figures: CellFigures) -> set[str]:
    """Names of what was measured of a cell."""
    probe_ms = figures.speed and figures.speed.probe_ms
    values = {"step time": figures.speed, "probe": probe_ms, "peak memory": figures.peak_memory_mib, **figures.quality}
    return {name for name, value in values.items() if value is not None}


def _exact(name: str, old: CellFigures, new: CellFigures) -> Iterator[Finding]:
    # Counts, initial weights, configuration, and how they were computed.
    sides = []
    for side in (old, new):
        compute = {one: side.conditions[one] for one in (*_SET, *_RESOLVED) if one in side.conditions}
        sides.append(flat({**side.exact, "compute": compute}))
    before, now = sides
    changed = [key for key in sorted(before.keys() | now.keys()) if before.get(key) != now.get(key)]
    if not changed:
        yield Finding(name, "exact", f"{len(now)} figures", Verdict.PASS, "", "", "all equal")

    # Some may differ between machines: weights are drawn on the CPU, whose instructions round logarithms differently.
    for key in changed:
        may_differ: tuple[str, ...] = ()
        if key == "initial_weights_sha256":
            may_differ = ("cpu_capability",)
        elif key.startswith(tuple(f"compute.{one}" for one in _RESOLVED)):
            may_differ = ("cpu_capability", "device_name")
        verdict, reason = Verdict.FAIL, "must not differ"
        if any(old.conditions.get(one) != new.conditions.get(one) for one in may_differ):
            verdict, reason = Verdict.SKIPPED, "it may differ on another machine"
        was, is_now = (str(side.get(key, "absent")) for side in sides)
        yield Finding(name, "exact", key, verdict, was, is_now, reason)


def _memory(name: str, old: CellFigures, new: CellFigures) -> Iterator[Finding]:
    before = old.peak_memory_mib
    now = new.peak_memory_mib
    if before is None or now is None or (old.memory_kind, new.memory_kind) != ("allocator", "allocator"):
        return
    allowed = before * (1 + MEMORY_SHARE) + MEMORY_MIB
    verdict = Verdict.PASS if now <= allowed else Verdict.FAIL
    yield Finding(name, "memory", "peak", verdict, _mib(before), _mib(now), f"allowed up to {_mib(allowed)}")


def _mib(value: float) -> str:
    return f"{value:,.1f} MiB"


def _quality(shared: Mapping[str, Pair], margins: Mapping[str, float]) -> Iterator[Finding]:
    # Cells whose bits are comparable.
    rows: dict[str, list[Pair]] = {}
    for name, pair in shared.items():
        if finding := _bits(name, *pair):
            yield finding
        else:
            rows.setdefault(_row(name), []).append(pair)

    # The others, by the mean over the seeds of a row.
    for row, pairs in rows.items():
        for metric in sorted({metric for pair in pairs for side in pair for metric in side.quality}):
            values = [(old.quality.get(metric), new.quality.get(metric)) for old, new in pairs]
            complete = [(old, new) for old, new in values if old is not None and new is not None]
            if complete:
                unstated = 0.0 if metric in QUALITY else MARGIN
                yield _within_margin(row, metric, complete, margins.get(metric, unstated))


def _bits(name: str, old: CellFigures, new: CellFigures) -> Finding | None:
    """Weights and losses bit for bit, figures of linear algebra nearly, under conditions that give the same bits.

    None where the conditions differ, and where another configuration or network has other bits.
    """
    before, now = ({k: v for k, v in side.conditions.items() if k not in _NO_BITS} for side in (old, new))
    if before != now or now.get("device") != "cpu":
        return None
    metrics = sorted(old.quality.keys() | new.quality.keys())
    other = [one for one in metrics if not is_same_figure(one, old.quality.get(one), new.quality.get(one))]
    if old.final_weights_sha256 != new.final_weights_sha256:
        other.insert(0, "final weights")
    if not other:
        return Finding(name, "quality", "bits", Verdict.PASS, "", "", "equal weights and figures")
    if old.exact != new.exact:
        return None
    was, is_now = (", ".join(f"{one} {side.quality.get(one, '')}" for one in other) for side in (old, new))
    reason = "different bits under the same build, CPU capability and threads"
    return Finding(name, "quality", "bits", Verdict.FAIL, was, is_now, reason)


def _within_margin(row: str, metric: str, values: Sequence[tuple[float, float]], margin: float) -> Finding:
    """Seeds are paired; a loss is better where it is lower, and a metric says which of two values is."""
    accepted = mean_interval([old for old, _ in values]).mean
    difference = mean_interval([new - old for old, new in values])
    allowed = margin * abs(accepted)
    figure = known_figures().get(metric)
    if figure is None and metric not in QUALITY:
        verdict, reason = Verdict.SKIPPED, "its metric is not installed here: whether lower is better is unknown"
    elif difference.bounds is None:
        verdict, reason = Verdict.SKIPPED, "one seed has no interval: two or more are needed"
    else:
        low, high = difference.bounds
        reason = f"difference {low:+.4g} to {high:+.4g} over {difference.n} seeds; margin {allowed:.4g}"
        if figure and not figure.lower_is_better:
            low, high = -high, -low
        verdict = Verdict.INCONCLUSIVE
        if low > allowed:
            verdict = Verdict.FAIL
        elif high <= allowed:
            verdict = Verdict.PASS
    return Finding(row, "quality", metric, verdict, f"{accepted:.4g}", f"{accepted + difference.mean:.4g}", reason)
