"""Rows beside their references at equal training MACs, equal measured time and equal iterations: a frame from a frame.

The reference of a row is the one that its budget names, and without a budget the dense row of its seed and
architecture. Differences are means over paired seeds with 95 % t intervals, which are not adjusted for the number of
rows. docs/methods/statistics.md has the rules.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import mean
from typing import Any

import numpy as np
import pandas as pd

from tread_bench.core.config.training import BUDGET_TOLERANCE
from tread_bench.core.numbers.curves import Curve, over_seeds, slope
from tread_bench.core.numbers.statistics import MeanInterval, Seeds, hull, log_ratio, paired_difference
from tread_bench.reports.frame import metrics_of

MACS, TIME, ITERATIONS = "equal training MACs", "equal measured time", "equal iterations"
END = "the reference's end"  # what it costs to come down to its FID there, over the reference's own cost
SAME_COST = 1e-3  # relative difference up to which two costs are compared as they are
ROW = ["suite", "row", "protocol"]  # what names a row: one that was measured under two protocols is two rows
DIFFERENCES = [
    *ROW, "reference", "at", "metric", "difference", "low", "high", "seeds", "reached", "cost", "evaluated", "in_pairs",
]  # fmt: skip
RowKey = tuple[str, str, str]  # the values of ROW
Sides = tuple[Seeds, Seeds]  # figures of a row and of its reference, of the same seeds


@dataclass(frozen=True, kw_only=True)
class Compared:
    """A row beside its reference in one way.

    Args:
        reference: the name of its row.
        at: `MACS`, `TIME`, `ITERATIONS` or `END`.
        estimate: the row minus its reference; at `END` a ratio of costs.
        cost: what both have cost there, in MACs, seconds or iterations.
        reached: how many seeds came down to the reference's FID.
        evaluated: False where a curve was read between its points.
        in_pairs: whether the row's steps were timed in turn with its reference's.
        sides: at equal measured time also those at both ends of the speed-up's interval, if they are known.
    """

    reference: str
    at: str
    metric: str
    estimate: MeanInterval
    cost: float
    reached: int
    evaluated: bool
    in_pairs: bool
    sides: Sequence[Sides] = ()


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
    found = compared_rows(trainings_of(frame))
    lines = []
    for key, of_row in found.items():
        for one in of_row:
            low, high = one.estimate.bounds or (math.nan, math.nan)
            counted = (one.estimate.n, one.reached, one.cost, one.evaluated, one.in_pairs)
            lines.append((*key, one.reference, one.at, one.metric, one.estimate.mean, low, high, *counted))
    return pd.DataFrame(lines, columns=DIFFERENCES)


def compared_rows(trainings: Mapping[RowKey, Trainings]) -> dict[RowKey, list[Compared]]:
    """Return each row beside its reference, in every way that its evaluations allow."""
    found = {}
    for row in trainings.values():
        reference = trainings.get(row.reference) if row.reference else None
        if reference is not None and (row.start, row.objective) == (reference.start, reference.objective):
            found[row.key] = [*_compared(row, reference), *_ratios(row, reference)]
    return found


class Trainings:
    """The finished cells of a row under one metric protocol, from their lines of the frame."""

    def __init__(self, key: RowKey, lines: Sequence[Mapping[str, Any]], metrics: Sequence[str]) -> None:
        first = lines[0]
        self.metrics = metrics
        self.key, self.first, self.start, self.objective = key, first, first["start"], first["objective"]
        self.macs_of = "" if first["checkpoint"] else first["macs_of"]
        self.depends_on_length = bool(first["schedule"] or first["decay"])
        self.reference: RowKey | None = None
        self.lines: dict[int, dict[int, Mapping[str, Any]]] = {}  # by paired seed and iteration
        for line in lines:
            self.lines.setdefault(line["paired_seed"], {})[line["iteration"]] = line
        self.last = max(line["iteration"] for line in lines)

        # The curve of FID by iteration; only of seeds that were evaluated where the training of the others ends.
        points: dict[int, dict[int, float]] = {}
        for seed, by_iteration in self.lines.items():
            for iteration, line in sorted(by_iteration.items()):
                if iteration and line["training_macs"] > 0 and math.isfinite(line["fid"]):
                    points.setdefault(seed, {})[iteration] = line["fid"]
        self.end = max(map(max, points.values()), default=0)
        self.points = {seed: of_seed for seed, of_seed in points.items() if self.end in of_seed}

    def is_paired(self, reference: Trainings) -> bool:
        """Whether its steps were timed in turn with those of its reference: not for another architecture or batch."""
        return bool(self.first["dense_step_ms"] == reference.first["dense_step_ms"])

    def settled(self, iteration: int, metric: str) -> Seeds:
        """Finite figures that may enter a comparison: none before the end of a training that depends on its length."""
        found = {}
        for seed, by_iteration in self.lines.items():
            line = by_iteration.get(iteration)
            if line is None or not math.isfinite(line[metric]):
                continue
            if line["checkpoint"]:
                is_settled = not line["decay"] or iteration == line["training_iterations"]
            else:
                is_settled = not self.depends_on_length or iteration == max(by_iteration)
            if is_settled:
                found[seed] = float(line[metric])
        return found

    @cached_property
    def fits(self) -> dict[int, Curve | None]:
        """Of each seed, FID over iterations, to which any cost is proportional without a schedule."""
        return {seed: Curve.of([*points], [*points.values()]) for seed, points in self.points.items()}

    def whole(self, cost: str) -> float | None:
        """Of the whole training, the column `cost`; None where that is not known."""
        value = next((self.lines[seed][self.end][cost] for seed in self.points), math.nan)
        return value if value > 0 else None

    def fids_at(self, share: float) -> Seeds:
        """At a share of the whole cost: as measured at the end, else on the fit; not beyond the points."""
        if share >= 1 - SAME_COST:
            return {seed: points[self.end] for seed, points in self.points.items()}
        found = {}
        for seed in self.points:
            fit = None if self.depends_on_length else self.fits[seed]
            fid = fit.value_at(share * self.end) if fit else None
            if fid is not None:
                found[seed] = fid
        return found

    def is_lowest_at_end(self) -> bool:
        """Whether its FID is lower at its end than at every earlier evaluation, beyond chance."""
        fids: dict[int, dict[int, float]] = {}
        for seed, points in self.points.items():
            for iteration, fid in points.items():
                fids.setdefault(iteration, {})[seed] = fid
        end = fids.pop(self.end, {})
        changes = [log_ratio(end, earlier) for earlier in fids.values()]
        return all(change is not None and change.is_below(0) for change in changes)


def trainings_of(frame: pd.DataFrame) -> dict[RowKey, Trainings]:
    """Return the trainings of each row and metric protocol, with what it is compared with."""
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
    by_row: dict[RowKey, list[dict[str, Any]]] = {}
    for line in pd.DataFrame(columns).to_dict("records"):
        line |= {name: int(line[name]) for name in ("paired_seed", "iteration")}
        by_row.setdefault((line["suite"], line["row"], line["protocol"]), []).append(line)
    rows = {key: Trainings(key, lines, metrics) for key, lines in by_row.items()}

    # A budget names a row, a reference a cell.
    of_cell = {line["cell"]: key for key, lines in by_row.items() for line in lines}
    for (suite, name, protocol), row in rows.items():
        named = next((of_cell[line["reference"]] for line in by_row[row.key] if line["reference"] in of_cell), None)
        key = (suite, row.macs_of, protocol) if row.macs_of else named
        if key is not None and key[1] != name and key[2] == protocol:
            row.reference = key
    return rows


def _compared(row: Trainings, reference: Trainings) -> Iterator[Compared]:
    # At the last iteration of the row, or of the reference that a budget names.
    at = reference.last if row.macs_of else row.last
    for metric in row.metrics:
        sides = row.settled(at, metric), reference.settled(at, metric)
        yield from _difference(row, reference, ITERATIONS, at, [sides], metric=metric)

    # At equal training MACs: as trained, or at the end of the cheaper of the two.
    own, other = row.whole("training_macs"), reference.whole("training_macs")
    if row.first["checkpoint"] or own is None or other is None:
        return
    tolerance = BUDGET_TOLERANCE if row.macs_of else SAME_COST
    if abs(own / other - 1) <= tolerance:
        yield from _at_shares(row, reference, MACS, other, [(1.0, 1.0)])
    else:
        cheaper = min(own, other)
        yield from _at_shares(row, reference, MACS, cheaper, [(cheaper / own, cheaper / other)])

    # At equal measured time.
    if row.macs_of:
        yield from _evaluated_at_time(row, reference)
    else:
        yield from _interpolated_at_time(row, reference)


def _difference(
    row: Trainings,
    reference: Trainings,
    at: str,
    cost: float,
    sides: Sequence[Sides],
    evaluated: bool = True,
    metric: str = "fid",
) -> Iterator[Compared]:
    """The mean difference, of the seeds that both have; nothing without any."""
    shared = []
    for own, other in sides:
        seeds = [seed for seed in own if seed in other]
        shared.append(({seed: own[seed] for seed in seeds}, {seed: other[seed] for seed in seeds}))
    estimate = hull([paired_difference(*one) for one in shared])
    if estimate is None:
        return
    in_pairs = row.is_paired(reference)
    if at == TIME and not in_pairs:
        estimate = replace(estimate, low=None, high=None)
    yield Compared(
        reference=reference.key[1], at=at, metric=metric, estimate=estimate, cost=cost, reached=estimate.n,
        evaluated=evaluated, in_pairs=in_pairs, sides=shared,
    )  # fmt: skip


def _at_shares(
    row: Trainings, reference: Trainings, at: str, cost: float, shares: Sequence[tuple[float, float]]
) -> Iterator[Compared]:
    """At these shares of the whole trainings."""
    sides = [(row.fids_at(own), reference.fids_at(other)) for own, other in shares]
    yield from _difference(row, reference, at, cost, sides, min(shares[0]) >= 1 - SAME_COST)


def _evaluated_at_time(row: Trainings, reference: Trainings) -> Iterator[Compared]:
    """From the evaluation at equal time; at the ends of the speed-up's interval, along the slope of the row's curve."""
    # Of the seeds, those that were evaluated where the first one was.
    own: dict[int, float] = {}
    planned: tuple[float, float, float] | None = None
    for seed in (seed for seed in row.points if seed in reference.points):
        line = row.lines[seed][row.end]
        there = (line["equal_time_iteration"], line["equal_time_low"], line["equal_time_high"])
        if math.isnan(there[0]) or not math.isfinite(line["fid_at_equal_time"]):
            continue
        planned = planned or there
        if np.array_equal(there, planned, equal_nan=True):
            own[seed] = line["fid_at_equal_time"]
    if planned is None:
        return
    references = {seed: reference.points[seed][reference.end] for seed in own}
    sides: list[Sides] = [(own, references)]

    # The fall of FID per e-fold of iterations, through means from half of equal time on. Of a training that depends on
    # its length, only the ends of trainings count.
    iteration, low, high = planned
    means = {iteration: mean(own.values())}
    fids = [row.points[seed] for seed in own]
    for at in sorted(set.intersection(*map(set, fids))):
        if at >= iteration / 2 and (at == row.end or not row.depends_on_length):
            means[at] = mean(of_seed[at] for of_seed in fids)
    fall = slope([*means], [*means.values()])
    if fall is not None and not math.isnan(low) and not math.isnan(high):
        for end in (low, high):
            sides.append(({seed: fid + fall * math.log(end / iteration) for seed, fid in own.items()}, references))
    yield from _difference(row, reference, TIME, reference.whole("paired_seconds") or 0.0, sides)


def _interpolated_at_time(row: Trainings, reference: Trainings) -> Iterator[Compared]:
    """On the curves; nothing where one of the three would lie beyond the evaluated points."""
    measured, other = row.whole("paired_seconds"), reference.whole("paired_seconds")
    if measured is None or other is None:
        return
    seconds = [measured]
    if row.is_paired(reference):
        wait = np.nan_to_num(row.first["loop_time_ms"] * row.first["data_wait_share"]) / 1e3 * row.end
        for bound in ("speedup_low", "speedup_high"):
            seconds.append((measured - wait) * row.first["speedup"] / row.first[bound] + wait)
    shares = [(min(own, other) / own, min(own, other) / other) for own in seconds]
    yield from _at_shares(row, reference, TIME, min(measured, other), shares)


def _ratios(row: Trainings, reference: Trainings) -> Iterator[Compared]:
    """Cost of a row to come down to its reference's FID at its end, on the fit of either, over the reference's cost.

    Not where the reference came down to it before its end, as far as its seeds tell: its cost would be chance.
    """
    if row.first["checkpoint"] or row.depends_on_length or reference.depends_on_length:
        return
    if not reference.is_lowest_at_end():
        return
    for column in ("training_macs", "paired_seconds"):
        whole, other = row.whole(column), reference.whole(column)
        ratios = []
        for seed in row.points:
            own, target = row.fits[seed], reference.fits.get(seed)
            if own and target and whole and other:
                ratios.append(own.cost_at(target.end) / own.costs[-1] * whole / other)
        found = over_seeds(ratios)
        if found:
            yield Compared(
                reference=reference.key[1], at=END, metric=column, cost=other or 0.0, reached=found.reached,
                estimate=MeanInterval(found.ratio, found.low, found.high, found.n), evaluated=False,
                in_pairs=row.is_paired(reference),
            )  # fmt: skip
