"""Rows beside their references at equal training MACs, equal measured time and equal iterations: a frame from a frame.

The reference of a row is the one that its budget names, and without a budget the dense row of its seed and
architecture. `pairs` has the figures of each seed, `differences` their means with 95 % t intervals, which are not
adjusted for the number of rows. docs/methods/statistics.md has the rules.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from statistics import mean
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tread_bench.core.config.training import BUDGET_TOLERANCE
from tread_bench.core.numbers.curves import Curve, over_seeds, slope
from tread_bench.core.numbers.statistics import MeanInterval, Seeds, hull, log_ratio, paired_difference
from tread_bench.reports.frame import metrics_of
from tread_bench.reports.rows import requested

if TYPE_CHECKING:
    import pandas as pd

    from tread_bench.reports.rows.row import Row

MACS, TIME, ITERATIONS = "equal training MACs", "equal measured time", "equal iterations"
END = "the reference's end"  # what it costs to come down to its FID there, over the reference's own cost
SAME_COST = 1e-3  # relative difference up to which two costs are compared as they are
ROW = ["suite", "row", "protocol"]  # what names a row: one that was measured under two protocols is two rows
PAIRS = [
    *ROW,
    "reference",
    "at",
    "bound",
    "metric",
    "seed",
    "value",
    "reference_value",
    "cost",
    "evaluated",
    "in_pairs",
]
DIFFERENCES = [
    *ROW, "reference", "at", "metric", "difference", "low", "high", "seeds", "reached", "cost", "evaluated", "in_pairs",
]  # fmt: skip


def pairs(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a line for each row, seed, metric and way of comparing: its figure and that of its reference.

    At equal measured time, lines whose `bound` is "low" or "high" are those at that end of the speed-up's interval.
    `cost` is what both have cost there: MACs, seconds or iterations; `evaluated` is False where a curve was read
    between its points; `in_pairs` whether the row's steps were timed in turn with its reference's.
    """
    return _paired(_rows(frame), metrics_of(frame))


def _paired(rows: Mapping[tuple[str, str, str], _Row], metrics: Sequence[str]) -> pd.DataFrame:
    import pandas as pd

    lines: list[tuple[Any, ...]] = []
    for row in rows.values():
        reference = rows.get(row.reference) if row.reference else None
        if reference is None or (row.start, row.objective) != (reference.start, reference.objective):
            continue
        for one in _compared(row, reference, metrics):
            about = (*row.key, reference.key[1], one.at, one.bound, one.metric)
            known = (seed for seed in one.values if seed in one.references)
            lines.extend(
                (
                    *about,
                    seed,
                    one.values[seed],
                    one.references[seed],
                    one.cost,
                    one.evaluated,
                    row.is_paired(reference),
                )
                for seed in known
            )
    return pd.DataFrame(lines, columns=PAIRS)


def differences(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a line for each row, metric and way of comparing: the difference to its reference, paired over seeds.

    Args:
        frame: as `frame.results_frame` makes it; records of several suites may be in it.

    Returns:
        Columns `DIFFERENCES`. `difference` is the row minus its reference, with its unadjusted 95 % t interval; at
        equal measured time that is the hull of the intervals at the speed-up and at both ends of its own. At the
        reference's end it is the ratio of costs, median over seeds, infinite where it was not reached. `low` and `high`
        are missing of one seed, and at equal measured time of steps that were not timed in pairs with the reference's:
        no interval of theirs covers what disturbed the clock.
    """
    rows = _rows(frame)
    return _summarised(_paired(rows, metrics_of(frame)), rows)


def _summarised(found: pd.DataFrame, rows: Mapping[tuple[str, str, str], _Row]) -> pd.DataFrame:
    import pandas as pd

    lines: list[tuple[Any, ...]] = []
    for key, group in found.groupby([*ROW, "reference", "at", "metric"], sort=False, dropna=False):
        sides = sides_of(group)
        estimate = hull([paired_difference(*one) for one in sides])
        if estimate is None:
            continue
        first = group.iloc[0]
        covers_the_clock = first["at"] != TIME or first.in_pairs
        low, high = (estimate.bounds if covers_the_clock else None) or (math.nan, math.nan)
        counted = (estimate.mean, low, high, estimate.n, estimate.n, first.cost, first.evaluated, first.in_pairs)
        lines.append((*key, *counted))
    lines.extend(_ratios(rows))
    return pd.DataFrame(lines, columns=DIFFERENCES)


class Line(NamedTuple):
    """A line of the frame of differences."""

    reference: str
    estimate: MeanInterval
    reached: int
    cost: float
    evaluated: bool
    in_pairs: bool


class Differences:
    """The differences of a run, looked up by row."""

    def __init__(self, frame: pd.DataFrame) -> None:
        rows = _rows(frame)
        self.pairs = _paired(rows, metrics_of(frame))
        self.frame = _summarised(self.pairs, rows)
        self._lines = {}
        for one in self.frame.itertuples(index=False):
            low, high = (None, None) if math.isnan(one.low) else (one.low, one.high)
            estimate = MeanInterval(one.difference, low, high, one.seeds)
            line = Line(one.reference, estimate, one.reached, one.cost, one.evaluated, one.in_pairs)
            self._lines[one.suite, one.row, one.protocol, one.at, one.metric] = line

    def line(self, row: Row, at: str, metric: str = "fid") -> Line | None:
        """Return the line of a row; None where it was not compared so."""
        return self._lines.get((*row.key, at, metric))

    def of(self, row: Row, at: str, metric: str = "fid") -> MeanInterval | None:
        """Return the row minus its reference."""
        line = self.line(row, at, metric)
        return line.estimate if line else None

    def sides(self, row: Row, at: str) -> list[tuple[Seeds, Seeds]]:
        """Return FIDs of a row and of its reference by seed: as measured, then at the ends of the speed-up's interval;
        empty where it was not compared so.
        """
        of_row = self._pairs_of.get((*row.key, at))
        return sides_of(of_row) if of_row is not None else []

    @cached_property
    def _pairs_of(self) -> dict[tuple[str, ...], pd.DataFrame]:
        fids = self.pairs[self.pairs.metric.isin(["fid"])]
        return dict(iter(fids.groupby([*ROW, "at"], sort=False)))

    def is_of_its_own(self, row: Row) -> bool:
        """Whether equal MACs are something else than equal iterations, of trainings that cost the same as they are."""
        line = self.line(row, MACS)
        return line is not None and (not line.evaluated or bool(requested.macs_of(row.first)))


def sides_of(lines: pd.DataFrame) -> list[tuple[Seeds, Seeds]]:
    """Return figures of a row and of its reference by seed, of one way of comparing: as measured, then at both ends of
    the speed-up's interval, if they are known.
    """
    found: list[tuple[Seeds, Seeds]] = []
    for bound in ("", "low", "high"):
        of_bound = lines[lines.bound == bound]
        if len(of_bound):
            seeds = of_bound.seed.to_list()
            values, references = of_bound.value.to_list(), of_bound.reference_value.to_list()
            found.append((dict(zip(seeds, values, strict=True)), dict(zip(seeds, references, strict=True))))
    return found


class _Point(NamedTuple):
    """One seed of a row at an evaluated iteration."""

    iteration: int
    macs: float  # of training up to here, all images
    seconds: float  # of training up to here, by steps timed alone and the measured wait for data; NaN: not known
    fid: float


class _Compared(NamedTuple):
    """Figures of a row and of its reference at one cost, by seed."""

    at: str
    metric: str
    cost: float
    values: Seeds
    references: Seeds
    evaluated: bool = True
    bound: str = ""


class _Row:
    """The finished cells of a row under one metric protocol, from their lines of the frame."""

    def __init__(self, key: tuple[str, str, str], lines: Sequence[Mapping[str, Any]]) -> None:
        first = lines[0]
        self.key, self.first, self.start, self.objective = key, first, first["start"], first["objective"]
        self.macs_of = "" if first["checkpoint"] else first["macs_of"]
        self.depends_on_length = bool(first["schedule"] or first["decay"])
        self.reference: tuple[str, str, str] | None = None
        self.lines: dict[int, dict[int, Mapping[str, Any]]] = {}  # by paired seed and iteration
        for line in lines:
            self.lines.setdefault(line["paired_seed"], {})[line["iteration"]] = line
        self.last = max(line["iteration"] for line in lines)

        # Points of the curve of FID; only of seeds that were evaluated where the training of the others ends.
        points: dict[int, list[_Point]] = {}
        for seed, by_iteration in self.lines.items():
            for iteration, line in sorted(by_iteration.items()):
                point = _Point(iteration, line["training_macs"], line["paired_seconds"], line["fid"])
                if iteration and point.macs > 0 and math.isfinite(point.fid):
                    points.setdefault(seed, []).append(point)
        end = max((each[-1].iteration for each in points.values()), default=0)
        self.points = {seed: each for seed, each in points.items() if each[-1].iteration == end}
        self.end = next((each[-1] for each in self.points.values()), None)
        self._fits: dict[int, Curve | None] = {}

    def is_paired(self, reference: _Row) -> bool:
        """Whether its steps were timed in turn with those of its reference: not for another architecture or batch."""
        return bool(self.first["dense_step_ms"] == reference.first["dense_step_ms"])

    def settled(self, seed: int, iteration: int, metric: str) -> float | None:
        """A finite figure that may enter a comparison: not one before the end of a training that depends on its
        length.
        """
        by_iteration = self.lines.get(seed, {})
        line = by_iteration.get(iteration)
        if line is None or not math.isfinite(line[metric]):
            return None
        if line["checkpoint"]:
            is_settled = not line["decay"] or iteration == line["training_iterations"]
        else:
            is_settled = not self.depends_on_length or iteration == max(by_iteration)
        return float(line[metric]) if is_settled else None

    def fit(self, seed: int) -> Curve | None:
        """FID over iterations, to which any cost is proportional without a schedule."""
        if seed not in self._fits:
            points = self.points[seed]
            self._fits[seed] = Curve.of([point.iteration for point in points], [point.fid for point in points])
        return self._fits[seed]

    def whole(self, cost: str) -> float | None:
        """Of the whole training: "macs" or "seconds"; None where that is not known."""
        value = getattr(self.end, cost) if self.end else math.nan
        return value if value > 0 else None

    def fid_at(self, share: float, seed: int) -> float | None:
        """At a share of the whole cost: as measured at the end, else on the fit; None beyond the points."""
        points = self.points[seed]
        if share >= 1 - SAME_COST:
            return points[-1].fid
        fit = None if self.depends_on_length else self.fit(seed)
        return fit.value_at(share * points[-1].iteration) if fit else None

    def is_lowest_at_end(self) -> bool:
        """Whether its FID is lower at its end than at every earlier evaluation, beyond chance."""
        fids: dict[int, dict[int, float]] = {}
        for seed, points in self.points.items():
            for point in points:
                fids.setdefault(point.iteration, {})[seed] = point.fid
        end = fids.pop(max(fids, default=0), {})
        changes = [log_ratio(end, earlier) for earlier in fids.values()]
        return all(change is not None and change.is_below(0) for change in changes)


def _rows(frame: pd.DataFrame) -> dict[tuple[str, str, str], _Row]:
    """The rows of the finished cells, with what each is compared with."""
    metrics = metrics_of(frame)
    texts = [*ROW, "cell", "reference", "start", "objective", "checkpoint", "macs_of", "schedule", "decay"]
    numbers = [
        "paired_seed", "iteration", "training_iterations", "training_macs", "paired_seconds", "dense_step_ms",
        "speedup", "speedup_low", "speedup_high", "loop_time_ms", "data_wait_share", "equal_time_iteration",
        "equal_time_low", "equal_time_high", "fid_at_equal_time", *metrics,
    ]  # fmt: skip
    done = frame[(frame.status == "done") & frame.iteration.notna()]
    columns = {name: done[name].astype(object).where(done[name].notna(), "").to_list() for name in texts}
    columns |= {name: done[name].astype("float64").to_list() for name in numbers}
    by_row: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for values in zip(*columns.values(), strict=True):
        line = dict(zip(columns, values, strict=True))
        line |= {name: int(line[name]) for name in ("paired_seed", "iteration")}
        by_row.setdefault((line["suite"], line["row"], line["protocol"]), []).append(line)
    rows = {key: _Row(key, lines) for key, lines in by_row.items()}

    # A budget names a row, a reference a cell.
    of_cell = {line["cell"]: key for key, lines in by_row.items() for line in lines}
    for (suite, name, protocol), row in rows.items():
        named = next((of_cell[line["reference"]] for line in by_row[row.key] if line["reference"] in of_cell), None)
        key = (suite, row.macs_of, protocol) if row.macs_of else named
        if key is not None and key[1] != name and key[2] == protocol:
            row.reference = key
    return rows


def _compared(row: _Row, reference: _Row, metrics: Sequence[str]) -> Iterator[_Compared]:
    """The row beside its reference in every way that its evaluations allow."""
    # At the last iteration of the row, or of the reference that a budget names.
    at = reference.last if row.macs_of else row.last
    for metric in metrics:
        values = {seed: row.settled(seed, at, metric) for seed in row.lines}
        references = {seed: reference.settled(seed, at, metric) for seed in row.lines}
        yield _Compared(ITERATIONS, metric, at, _known(values), _known(references))

    # At equal training MACs: as trained, or at the end of the cheaper of the two.
    wholes = row.whole("macs"), reference.whole("macs")
    if not row.first["checkpoint"] and None not in wholes:
        own, other = (whole or 0.0 for whole in wholes)
        tolerance = BUDGET_TOLERANCE if row.macs_of else SAME_COST
        is_trained = abs(own / other - 1) <= tolerance
        yield (
            _at_share(MACS, row, reference, other, (1.0, 1.0))
            if is_trained
            else _cheaper(MACS, row, reference, own, other)
        )
        yield from _evaluated_at_time(row, reference) if row.macs_of else _interpolated_at_time(row, reference)


def _known(values: Mapping[int, float | None]) -> Seeds:
    return {seed: value for seed, value in values.items() if value is not None}


def _cheaper(at: str, row: _Row, reference: _Row, own: float, other: float, bound: str = "") -> _Compared:
    """At the end of the cheaper of the two trainings; the other is interpolated there."""
    end = min(own, other)
    return _at_share(at, row, reference, end, (end / own, end / other), bound)


def _at_share(
    at: str, row: _Row, reference: _Row, cost: float, shares: tuple[float, float], bound: str = ""
) -> _Compared:
    """At these shares of the whole trainings, of the seeds that have both FIDs."""
    shared = [seed for seed in row.points if seed in reference.points]
    own = _known({seed: row.fid_at(shares[0], seed) for seed in shared})
    other = _known({seed: reference.fid_at(shares[1], seed) for seed in shared})
    return _Compared(at, "fid", cost, own, other, min(shares) >= 1 - SAME_COST, bound)


def _evaluated_at_time(row: _Row, reference: _Row) -> Iterator[_Compared]:
    """From the evaluation at equal time; at the ends of the speed-up's interval, along the slope of the row's curve."""
    # Of the seeds, those that were evaluated where the first one was.
    own: dict[int, float] = {}
    planned: tuple[float, float, float] | None = None
    for seed in (seed for seed in row.points if seed in reference.points):
        line = row.lines[seed][row.points[seed][-1].iteration]
        there = (line["equal_time_iteration"], line["equal_time_low"], line["equal_time_high"])
        if math.isnan(there[0]) or not math.isfinite(line["fid_at_equal_time"]):
            continue
        planned = planned or there
        if np.array_equal(there, planned, equal_nan=True):
            own[seed] = line["fid_at_equal_time"]
    if planned is None:
        return
    references = {seed: reference.points[seed][-1].fid for seed in own}
    seconds = reference.whole("seconds") or 0.0
    yield _Compared(TIME, "fid", seconds, own, references)

    # The fall of FID per e-fold of iterations, through means from half of equal time on. Of a training that depends on
    # its length, only the ends of trainings count.
    iteration, low, high = planned
    means = {iteration: mean(own.values())}
    fids = [{point.iteration: point.fid for point in row.points[seed]} for seed in own]
    for at in sorted(set.intersection(*map(set, fids))):
        is_end = row.end is not None and at == row.end.iteration
        if at >= iteration / 2 and (is_end or not row.depends_on_length):
            means[at] = mean(of_seed[at] for of_seed in fids)
    fall = slope([*means], [*means.values()])
    if fall is None or math.isnan(low) or math.isnan(high):
        return
    for bound, end in (("low", low), ("high", high)):
        shifted = {seed: fid + fall * math.log(end / iteration) for seed, fid in own.items()}
        yield _Compared(TIME, "fid", seconds, shifted, references, bound=bound)


def _interpolated_at_time(row: _Row, reference: _Row) -> Iterator[_Compared]:
    """On the curves; nothing where one of the three would lie beyond the evaluated points."""
    seconds, other = row.whole("seconds"), reference.whole("seconds")
    if seconds is None or other is None or row.end is None:
        return
    measured = _cheaper(TIME, row, reference, seconds, other)
    if not row.is_paired(reference):
        yield measured
        return
    wait = np.nan_to_num(row.first["loop_time_ms"] * row.first["data_wait_share"]) / 1e3 * row.end.iteration
    found = [measured]
    for bound in ("low", "high"):
        slower = row.first["speedup"] / row.first[f"speedup_{bound}"]
        found.append(_cheaper(TIME, row, reference, (seconds - wait) * slower + wait, other, bound))
    if all(one.values.keys() & one.references.keys() for one in found):
        yield from found


def _ratios(rows: Mapping[tuple[str, str, str], _Row]) -> Iterator[tuple[Any, ...]]:
    """Cost of a row to come down to its reference's FID at its end, on the fit of either, over the reference's cost.

    Not where the reference came down to it before its end, as far as its seeds tell: its cost would be chance.
    """
    for row in rows.values():
        reference = rows.get(row.reference) if row.reference else None
        if reference is None or row.first["checkpoint"] or row.depends_on_length or reference.depends_on_length:
            continue
        if (row.start, row.objective) != (reference.start, reference.objective) or not reference.is_lowest_at_end():
            continue
        for cost, column in (("macs", "training_macs"), ("seconds", "paired_seconds")):
            whole, other = row.whole(cost), reference.whole(cost)
            ratios = []
            for seed in row.points:
                own = row.fit(seed)
                target = reference.fit(seed) if seed in reference.points else None
                if own and target and whole and other:
                    ratios.append(own.cost_at(target.end) / own.costs[-1] * whole / other)
            found = over_seeds(ratios)
            if found:
                low, high = (math.nan if bound is None else bound for bound in (found.low, found.high))
                counted = (found.ratio, low, high, found.n, found.reached, other, False, row.is_paired(reference))
                yield (*row.key, reference.key[1], END, column, *counted)
