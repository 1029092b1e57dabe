"""A run against a baseline, the reviewed figures of one run: each kind of figure by the rule that suits it.

A baseline is a JSON file that people read in a diff.

Two ratios of times that were measured side by side say how fast a row is: dense over routed step times, and step times
in units of a probe of fixed work. New over old is 1 where nothing changed, below 1 where this run is slower. It is a
geometric mean, with Welch's interval at `CONFIDENCE`. A row fails where the ratio lies below the rule's limit (Holm
over the rows), passes where the whole interval lies above it, and is inconclusive otherwise.
`tests/regression/test_error_rates.py` measures both errors.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from typing import Literal
from xml.etree import ElementTree

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, JsonValue, PositiveFloat, model_validator
from scipy.stats import chi2, ttest_ind

from tread_bench.core.config.base import Model
from tread_bench.core.describe.metrics import known_figures
from tread_bench.core.numbers.statistics import mean_interval
from tread_bench.core.stored.conditions import BLAS_KERNELS, by_file_name, decisive_to_the_bit
from tread_bench.core.stored.records import GpuConditions, Record

_EXACT_COSTS = ("params", "trainable_params", "tokens_per_block", "block_macs", "forward_macs", "train_step_macs")
MARGIN = 0.03  # a share of the accepted mean; also of a metric that a suite adds, where a baseline states no other
MARGINS = {"validation_loss": MARGIN, "fid": MARGIN}
_CONTROL = {code: None for code in range(32) if code not in (9, 10, 13)}  # XML 1.0 cannot represent these
MEMORY_SHARE = 0.01  # a CUDA allocator's peak may grow by this share and
MEMORY_MIB = 8.0  # by this much in addition
_NO_BITS = ("tread-bench", BLAS_KERNELS)  # conditions that need not match for equal bits of weights and losses
_LINEAR_ALGEBRA = 1e-9  # relative difference up to which figures that NumPy computes with linear algebra are equal

# Of the conditions, what is configuration: set by the suite, or resolved on the machine where the suite says auto.
_SET = ("threads", "autocast", "compile", "gradient_checkpointing", "micro_batch")
_RESOLVED = ("matmul_precision", "tf32", "kernels")

LIMIT = 0.97  # of the speed-up: a loss of up to 3 % is not distinguishable from none
ABSOLUTE_LIMIT = 0.90  # of a step time against one stored earlier
CONFIDENCE = 0.99
PAIRS = 20
LARGEST_SPREAD = 0.02  # of pairs (standard deviation of log ratios) where a loss of 3 % is to be detected

CLOCK_SHARE = 0.05  # that a GPU's clock may change by while it is timed; boost moves in steps below 1 %
# What protects the device. A software power cap is not among these: under full load many GPUs are at their cap all the
# time, and its cost shows in the clock.
SLOWDOWNS = ("hardware slowdown", "hardware thermal slowdown", "hardware power brake", "software thermal slowdown")


class Speed(Model):
    """Step times of a row beside those of its dense twin, pair by pair, and of a probe of fixed work beside them."""

    step_times_ms: list[PositiveFloat] = Field(min_length=1)
    reference_step_times_ms: list[PositiveFloat]
    probe_ms: PositiveFloat | None = None
    gpu_before: GpuConditions | None = None
    gpu_after: GpuConditions | None = None

    @model_validator(mode="after")
    def _are_pairs(self) -> Speed:
        if len(self.step_times_ms) != len(self.reference_step_times_ms):
            raise ValueError("step times come in pairs")
        return self


class CellFigures(Model):
    """One cell of a baseline. `exact` contains what must not differ at all."""

    exact: dict[str, JsonValue]
    conditions: dict[str, JsonValue]
    speed: Speed | None = None
    peak_memory_mib: float | None = None
    memory_kind: str | None = None
    quality: dict[str, float] = Field(default_factory=dict)
    final_weights_sha256: str = ""

    @classmethod
    def of(cls, record: Record) -> CellFigures:
        """Return the figures of a finished cell."""
        cost, timing, last = record.cost, record.timing, record.last
        exact = {name: getattr(cost, name) for name in _EXACT_COSTS} if cost else {}
        exact |= {"initial_weights_sha256": record.initial_weights_sha256, "config": by_file_name(record.config)}
        quality = {name: last.figure(name) for name in (*MARGINS, *last.figures)} if last else {}
        return cls(
            exact=exact,
            conditions=decisive_to_the_bit(record.conditions),
            speed=timing and Speed.model_validate(timing.model_dump(include=set(Speed.model_fields))),
            peak_memory_mib=timing and timing.peak_memory_mib,
            memory_kind=timing and timing.memory_kind,
            quality={name: value for name, value in quality.items() if value is not None},
            final_weights_sha256=record.final_weights_sha256,
        )


class Baseline(Model):
    """Cells by "row seed"; `margins` are how much worse a metric may become, as a share of the accepted mean."""

    schema_version: Literal[1] = 1
    suite: str
    margins: dict[str, float] = MARGINS
    cells: dict[str, CellFigures] = Field(min_length=1)


def figures_of(records: Sequence[Record]) -> dict[str, CellFigures]:
    """Return the figures of all finished cells, sorted by row and seed: a diff shows what changed."""
    cells = {f"{r.row} seed {r.seed}": CellFigures.of(r) for r in records if r.status == "done"}
    return dict(sorted(cells.items()))


class Verdict(StrEnum):
    """The verdict on one figure of one cell."""

    PASS = "pass"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"  # too few seeds, too much noise, or a GPU that was not quiet
    SKIPPED = "not compared"  # the two were measured under conditions that are not comparable; neither is at fault


@dataclass(frozen=True, slots=True)
class Finding:
    """A figure of a cell, the verdict on it and why; `accepted` and `measured` are texts for people."""

    cell: str
    kind: str  # presence, exact, speed, memory or quality
    figure: str
    verdict: Verdict
    accepted: str
    measured: str
    reason: str = ""


Pair = tuple[CellFigures, CellFigures]  # accepted, measured


def compare(baseline: Baseline, cells: Mapping[str, CellFigures], failed: Mapping[str, str]) -> list[Finding]:
    """Return every finding, cell by cell.

    Args:
        failed: why a cell of the run failed, by "row seed".
    """
    # Cells that only one of the two has.
    findings = []
    for name in (baseline.cells.keys() ^ cells.keys()) | failed.keys():
        before, now = ("present" if name in side else "absent" for side in (baseline.cells, cells))
        reason = failed.get(name) or ("new" if name in cells else "vanished: the run no longer has this cell")
        findings.append(Finding(name, "presence", "cell", Verdict.FAIL, before, now, reason))

    # Figures of each cell that must not differ, and those that are no longer measured.
    shared = {name: (old, cells[name]) for name, old in baseline.cells.items() if name in cells}
    for name, (old, new) in shared.items():
        findings += _exact(name, old, new)
        for figure in sorted(_measured(old) - _measured(new)):
            findings.append(
                Finding(name, "presence", figure, Verdict.FAIL, "measured", "absent", "not measured any more")
            )

    # Memory and speed of each row, which its seeds share; quality of each row over its seeds.
    rows = {name.rpartition(" seed ")[0]: pair for name, pair in reversed(shared.items())}
    findings += [*_memory(rows), *_speed(rows), *_quality(shared, baseline.margins)]
    return sorted(findings, key=lambda finding: finding.cell)


def _measured(figures: CellFigures) -> set[str]:
    """Names of what was measured of a cell."""
    probe_ms = figures.speed and figures.speed.probe_ms
    values = {"step time": figures.speed, "probe": probe_ms, "peak memory": figures.peak_memory_mib, **figures.quality}
    return {name for name, value in values.items() if value is not None}


def _exact(name: str, old: CellFigures, new: CellFigures) -> Iterator[Finding]:
    """Counts, initial weights, configuration, and how they were computed."""
    sides = []
    for side in (old, new):
        computed = {key: value for key, value in side.conditions.items() if key in (*_SET, *_RESOLVED)}
        sides.append(_flat({**side.exact, "compute": computed}))
    before, now = sides
    changed = [key for key in sorted(before.keys() | now.keys()) if before.get(key) != now.get(key)]
    if not changed:
        yield Finding(name, "exact", f"{len(now)} figures", Verdict.PASS, "", "", "all equal")

    # Some may differ between machines: weights are drawn on the CPU, whose instructions round logarithms differently.
    is_other_cpu = old.conditions.get("cpu_capability") != new.conditions.get("cpu_capability")
    is_elsewhere = is_other_cpu or old.conditions.get("device_name") != new.conditions.get("device_name")
    for key in changed:
        verdict, reason = Verdict.FAIL, "must not differ"
        is_resolved = key.startswith(tuple(f"compute.{one}" for one in _RESOLVED))
        if (is_elsewhere and is_resolved) or (is_other_cpu and key == "initial_weights_sha256"):
            verdict, reason = Verdict.SKIPPED, "it may differ on another machine"
        yield Finding(name, "exact", key, verdict, str(before.get(key, "absent")), str(now.get(key, "absent")), reason)


def _flat(value: JsonValue, path: str = "") -> dict[str, JsonValue]:
    """Leaves by dotted path."""
    if not isinstance(value, dict):
        return {path: value}
    return {k: leaf for key, item in value.items() for k, leaf in _flat(item, f"{path}.{key}".lstrip(".")).items()}


def _memory(rows: Mapping[str, Pair]) -> Iterator[Finding]:
    for row, (old, new) in rows.items():
        before, now = old.peak_memory_mib, new.peak_memory_mib
        if before is None or now is None or not old.memory_kind == new.memory_kind == "allocator":
            continue
        allowed = before * (1 + MEMORY_SHARE) + MEMORY_MIB
        verdict = Verdict.PASS if now <= allowed else Verdict.FAIL
        was, is_now, limit = (f"{value:,.1f} MiB" for value in (before, now, allowed))
        yield Finding(row, "memory", "peak", verdict, was, is_now, f"allowed up to {limit}")


def _speed(rows: Mapping[str, Pair]) -> Iterator[Finding]:
    """Findings of every row that was timed both times; where its times cannot support a verdict, why."""
    # Logarithms of both ratios, pair by pair, accepted and measured.
    in_probes: dict[str, list[NDArray[np.float64]]] = {}
    speedups: dict[str, list[NDArray[np.float64]]] = {}
    step_times: dict[str, tuple[str, str]] = {}
    for row, (old, new) in rows.items():
        if old.speed is None or new.speed is None:
            continue
        pair = (old.speed, new.speed)
        before, now = (f"{np.median(side.step_times_ms):.2f} ms" for side in pair)
        step_times[row] = (before, now)
        unfit, config = _unfit(old, new, pair), new.exact.get("config")
        if unfit is None and isinstance(config, dict) and config.get("routes"):
            speedups[row] = [np.log(np.divide(side.reference_step_times_ms, side.step_times_ms)) for side in pair]
        if unfit is None and all(side.probe_ms for side in pair):
            in_probes[row] = [-np.log(np.divide(side.step_times_ms, side.probe_ms or 1)) for side in pair]
        else:
            verdict, reason = unfit or (Verdict.SKIPPED, "no probe was timed beside both")
            yield Finding(row, "speed", "step time", verdict, *step_times[row], reason)

    # The verdicts.
    for row, (verdict, ratio) in judge(in_probes, ABSOLUTE_LIMIT).items():
        yield Finding(row, "speed", "step time", verdict, *step_times[row], f"in units of the probe: {ratio}")
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
        raw.append(float(ttest_ind(np.subtract(new, math.log(limit)), old, equal_var=False, alternative="less").pvalue))
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


def holm(p_values: Sequence[float]) -> list[float]:
    """Return adjusted p-values (Holm 1979) in the given order: the k-th smallest of m times m-k+1, never falling."""
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted


def _unfit(old: CellFigures, new: CellFigures, pair: tuple[Speed, Speed]) -> tuple[Verdict, str] | None:
    """Why step times cannot support a verdict: another machine, too few pairs, or a GPU that changed."""
    # Any CPU may check what does not depend on the CPU; a GPU that was replaced is reported.
    machine = old.conditions.get("device_name")
    if machine != new.conditions.get("device_name"):
        has_gpu = "cuda" in (old.conditions.get("device"), new.conditions.get("device"))
        return Verdict.INCONCLUSIVE if has_gpu else Verdict.SKIPPED, f"accepted on another machine, {machine}"

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


def _quality(shared: Mapping[str, Pair], margins: Mapping[str, float]) -> Iterator[Finding]:
    """Bits where they are comparable, and else the means over the seeds of a row."""
    values: dict[tuple[str, str], list[tuple[float, float]]] = {}  # by row and metric
    for name, (old, new) in shared.items():
        if finding := _bits(name, old, new):
            yield finding
            continue
        row = name.rpartition(" seed ")[0]
        for metric in sorted(old.quality.keys() & new.quality.keys()):
            values.setdefault((row, metric), []).append((old.quality[metric], new.quality[metric]))
    for (row, metric), both in values.items():
        unstated = 0.0 if metric in MARGINS else MARGIN
        yield _within_margin(row, metric, both, margins.get(metric, unstated))


def _bits(name: str, old: CellFigures, new: CellFigures) -> Finding | None:
    """Weights and losses bit for bit, figures of linear algebra nearly, under conditions that give the same bits.

    None where the conditions differ, and where another configuration or network has other bits.
    """
    before, now = ({k: v for k, v in side.conditions.items() if k not in _NO_BITS} for side in (old, new))
    if before != now or now.get("device") != "cpu":
        return None
    metrics = sorted(old.quality.keys() | new.quality.keys())
    other = [one for one in metrics if not _is_same_figure(one, old.quality.get(one), new.quality.get(one))]
    if old.final_weights_sha256 != new.final_weights_sha256:
        other.insert(0, "final weights")
    if not other:
        return Finding(name, "quality", "bits", Verdict.PASS, "", "", "equal weights and figures")
    if old.exact != new.exact:
        return None
    was, is_now = (", ".join(f"{one} {side.quality.get(one, '')}" for one in other) for side in (old, new))
    reason = "different bits under the same build, CPU capability and threads"
    return Finding(name, "quality", "bits", Verdict.FAIL, was, is_now, reason)


def _is_same_figure(name: str, a: float | None, b: float | None) -> bool:
    """Whether two values agree as under equal conditions: bit for bit, or within a tolerance for BLAS."""
    figure = known_figures().get(name)
    if a is None or b is None or figure is None or not figure.by_linear_algebra:
        return a == b
    return math.isclose(a, b, rel_tol=_LINEAR_ALGEBRA)


def _within_margin(row: str, metric: str, values: Sequence[tuple[float, float]], margin: float) -> Finding:
    """Seeds are paired; a loss is better where it is lower, and a metric says which of two values is."""
    accepted = mean_interval([old for old, _ in values]).mean
    difference = mean_interval([new - old for old, new in values])
    allowed = margin * abs(accepted)
    figure = known_figures().get(metric)
    if figure is None and metric not in MARGINS:
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


def exit_status(findings: Iterable[Finding]) -> int:
    """0: all passed; 1: something is worse; 3: nothing is known to be worse, and something is inconclusive."""
    verdicts = {finding.verdict for finding in findings}
    if Verdict.FAIL in verdicts:
        return 1
    return 3 if Verdict.INCONCLUSIVE in verdicts else 0


def to_junit(findings: Sequence[Finding], title: str) -> str:
    """Return JUnit XML with a suite per cell and a test case per finding, which come sorted by cell."""
    root = ElementTree.Element("testsuites", name=title)
    for cell, of_cell in groupby(findings, key=lambda finding: finding.cell):
        part = ElementTree.SubElement(root, "testsuite", name=cell)
        for finding in of_cell:
            case = ElementTree.SubElement(part, "testcase", classname=cell, name=f"{finding.kind}: {finding.figure}")
            if finding.verdict is not Verdict.PASS:
                text = f"{finding.verdict}: accepted {finding.accepted}, measured {finding.measured}; {finding.reason}"
                ElementTree.SubElement(case, "failure" if finding.verdict is Verdict.FAIL else "skipped", message=text)
        part.set("tests", str(len(part)))
        for tag, counted in (("failure", "failures"), ("skipped", "skipped")):
            part.set(counted, str(len(part.findall(f"testcase/{tag}"))))
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True).translate(_CONTROL) + "\n"
