"""Rows beside their references at equal cost: the FID at equal training MACs and at equal measured time, and what it
took to reach the reference's end.

The reference is the row that a row's budget names, and without a budget the plainly dense row of its group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tread_bench.core.config.training import BUDGET_TOLERANCE
from tread_bench.core.curves import Curve, Reached, over_seeds
from tread_bench.core.records import Evaluation, Record, TimingFigures, paired_seed
from tread_bench.core.statistics import (
    Estimate,
    Seeds,
    detectable_difference,
    holm,
    paired_difference,
    paired_p_value,
)
from tread_bench.reports import requested
from tread_bench.reports.architectures import side_by_side
from tread_bench.reports.comparison import Row
from tread_bench.reports.rates import Setting, images_per_s

_SAME_COST = 1e-3  # relative difference up to which two costs are compared as they are

Cost = Literal["macs", "seconds"]


class Point(NamedTuple):
    """One seed of a row at an evaluated iteration."""

    iteration: int
    macs: float  # of training up to here, all images
    seconds: float | None  # of training up to here, by steps timed alone and the measured wait for data
    fid: float


@dataclass(frozen=True, kw_only=True)
class AtEqualCost:
    """A row beside its reference (the row that its budget names; without budgets the plainly dense row of its group).

    FID differences are row - reference, paired by seed; p-values are those of paired t-tests, Holm-adjusted over all
    compared rows that stand side by side. What cannot be compared without going beyond the evaluated points is None.
    """

    row: Row
    reference: Row
    macs_ratio: float | None = None  # training MACs over the reference's, at the points compared
    is_trained: bool = False  # to that cost; False: a curve of at least six points was interpolated
    macs: float | None = None  # at which `at_macs` compares them, all images
    seconds: float | None = None  # at which `at_time` compares them
    at_macs: Estimate | None = None
    at_macs_p: float | None = None
    at_time: Estimate | None = None
    at_iterations: Estimate | None = None  # at the reference's last iteration
    at_iterations_p: float | None = None
    macs_to_target: Reached | None = None  # MACs to come down to the reference's end, over the reference's own
    time_to_target: Reached | None = None
    detectable: float | None = None  # smallest FID difference at equal MACs that these seeds find with 80 % power
    fids_at_macs: Mapping[int, float] = field(default_factory=dict)  # the row's own, by paired seed


def equal_costs(rows: Sequence[Row]) -> list[AtEqualCost]:
    """Every row that has a reference, in the order of the rows; empty where nothing was trained beside a reference."""
    found = []
    for members in side_by_side(rows):
        pairs = [(row, reference) for row in members if (reference := reference_of(row, members))]
        compared = [_Pair(row, reference) for row, reference in pairs]
        found += _tested(compared)
    order = {id(row): place for place, row in enumerate(rows)}
    return sorted(found, key=lambda one: order[id(one.row)])


def reference_of(row: Row, rows: Sequence[Row]) -> Row | None:
    """The row that it is compared with at equal cost; None for a reference, and for a row that was not trained."""
    if row.is_dense or requested.is_evaluated_only(row.first):
        return None
    alike = [other for other in rows if other.group == row.group and other is not row]
    name = requested.macs_of(row.first)
    if name:
        return next((other for other in alike if (other.first.suite, other.name) == (row.first.suite, name)), None)
    cells = {record.reference for record in row.records}
    return next((other for other in alike if other.is_dense and any(r.cell in cells for r in other.records)), None)


def curve(row: Row, seed: int) -> list[Point]:
    """The row's evaluated points of one (paired) seed under its group's protocol, by iteration.

    Empty for a row whose MACs were not counted, and for one that evaluates what another row trained.
    """
    record = next((one for one in row.done if paired_seed(one) == seed), None)
    if record is None or requested.is_evaluated_only(record):
        return []
    step_s = step_seconds(row)
    points = []
    for evaluation in sorted(record.evaluations, key=lambda e: e.iteration):
        i, macs = evaluation.iteration, training_macs(record, evaluation.iteration)
        if i and macs and evaluation.fid is not None and (evaluation.protocol or "") == row.group.protocol:
            points.append(Point(i, macs, step_s and step_s * i, evaluation.fid))
    return points


def seeds_of(row: Row) -> list[int]:
    """Paired seeds of its finished cells."""
    return sorted({paired_seed(record) for record in row.done})


def step_seconds(row: Row) -> float | None:
    """Seconds of a training step: the paired step time behind the speed-up, and the mean wait for a batch.

    None where steps were not timed, and for a schedule, which has two kinds of steps of which one was timed. A wait
    that was not measured (records of older versions) counts as none.
    """
    if row.step_ms is None or (row.spans and requested.scheduled(row.first)):
        return None
    waits = [_wait_ms(timing) for timing in row.timings]
    return (row.step_ms + sum(waits) / len(waits)) / 1e3


def _wait_ms(timing: TimingFigures) -> float:
    """Mean wait for a batch in a step of the training loop."""
    return (timing.loop_time_ms or 0.0) * (timing.data_wait_share or 0.0)


def cost_columns(record: Record, evaluation: Evaluation | None, dense_ms: Mapping[Setting, float]) -> dict[str, Any]:
    """What results.csv says of the cost of a training up to an evaluation."""
    columns: dict[str, Any] = {"macs_of": requested.macs_of(record) or None}
    if evaluation is None:
        return columns
    columns["training_macs"] = training_macs(record, evaluation.iteration)
    rate = images_per_s(record, dense_ms)
    is_one_step = not (record.routes and requested.scheduled(record)) and not requested.is_evaluated_only(record)
    if rate and record.timing and is_one_step:
        step_s = record.timing.batch / rate + _wait_ms(record.timing) / 1e3
        columns["paired_seconds"] = step_s * evaluation.iteration
    return columns


def training_macs(record: Record, iteration: int) -> float | None:
    """Of all images up to `iteration`; None: not counted, or trained by another row."""
    images_per_step = record.config.get("training", {}).get("batch")
    per_image = macs_until(record, iteration)
    if not images_per_step or per_image is None or requested.is_evaluated_only(record):
        return None
    return float(images_per_step * per_image)


def macs_until(record: Record, iteration: int) -> float | None:
    """Training MACs of one image per step, summed up to `iteration` over the record's schedule; None: not counted.

    A step at share s of the rates is assumed to cost dense + s (routed - dense). With the dense cost that follows from
    the mean over the whole schedule, the sum is exact for dense parts and at the end.
    """
    if record.cost is None:
        return None
    routed, mean = record.cost.train_step_macs, record.cost.mean_train_step_macs
    last = requested.iterations(record)
    schedule = requested.schedule(record)
    if mean is None or not schedule.text or not last:
        return float(routed * iteration)
    shares = _summed_shares(schedule, last)
    extra = (mean - routed) * last / (last - shares[-1]) if shares[-1] < last else 0.0
    steps = min(iteration, last)
    return float(routed * steps + (steps - shares[steps]) * extra)


@cache
def _summed_shares(schedule: requested.Schedule, last: int) -> NDArray[np.float64]:
    """Sum of the shares of the rates over the first i steps, (last + 1,)."""
    return np.concatenate([[0.0], np.cumsum([schedule.share(step, last) for step in range(last)])])


class _Compared(NamedTuple):
    """FIDs of a row and its reference at one cost."""

    cost: float
    row: Seeds
    reference: Seeds
    is_interpolated: bool

    @property
    def difference(self) -> Estimate | None:
        return paired_difference(self.row, self.reference)


class _Pair:
    """A row and its reference, with the curves of the seeds that both have."""

    def __init__(self, row: Row, reference: Row) -> None:
        self.row = row
        self.reference = reference
        own, others = ({seed: curve(one, seed) for seed in seeds_of(one)} for one in (row, reference))

        # Only seeds that were evaluated where the training of the others ends.
        end = max((points[-1].iteration for points in own.values() if points), default=0)
        reference_end = max((points[-1].iteration for points in others.values() if points), default=0)
        self.curves: dict[int, tuple[list[Point], list[Point]]] = {}
        for seed, points in own.items():
            paired = others.get(seed)
            if points and paired and (points[-1].iteration, paired[-1].iteration) == (end, reference_end):
                self.curves[seed] = (points, paired)

    @property
    def has_one_course(self) -> bool:
        """Whether what is measured before the end is what a shorter training would have: not with a schedule."""
        return not any(requested.scheduled(one.first) for one in (self.row, self.reference))

    @property
    def macs_ratio(self) -> float | None:
        """At the ends of both."""
        ends = self._ends("macs")
        return ends[0] / ends[1] if ends else None

    @property
    def is_trained(self) -> bool:
        """Whether both were trained to one cost."""
        tolerance = BUDGET_TOLERANCE if requested.macs_of(self.row.first) else _SAME_COST
        return self.macs_ratio is not None and abs(self.macs_ratio - 1) <= tolerance

    def _ends(self, cost: Cost) -> tuple[float, float] | None:
        for points in self.curves.values():
            own, other = (getattr(found[-1], cost) for found in points)
            return (own, other) if own and other else None
        return None

    def at_macs(self) -> _Compared | None:
        if self.is_trained:
            fids = {seed: (own[-1].fid, other[-1].fid) for seed, (own, other) in self.curves.items()}
            end = next(iter(self.curves.values()))[1][-1]
            return _compared(end.macs, fids, is_interpolated=False)
        return self.at_equal("macs")

    def at_equal(self, cost: Cost) -> _Compared | None:
        """At the end of the cheaper of the two; the other is interpolated there."""
        ends = self._ends(cost)
        if ends is None:
            return None
        end = min(ends)
        is_interpolated = max(ends) > end * (1 + _SAME_COST)
        longer = (self.row, self.reference)[ends.index(max(ends))]
        if is_interpolated and requested.scheduled(longer.first):
            return None  # of a schedule only the end counts
        fids = {}
        for seed, points in self.curves.items():
            own, other = (_fid_at(end, found, cost) for found in points)
            if own is not None and other is not None:
                fids[seed] = (own, other)
        return _compared(end, fids, is_interpolated)

    def to_target(self, cost: Cost) -> Reached | None:
        """Cost to come down to the reference's end on the fit of either, over the reference's whole cost."""
        if self._ends(cost) is None or not self.has_one_course:
            return None
        ratios = []
        for points in self.curves.values():
            own, other = (_fit(found, cost) for found in points)
            if own and other:
                ratios.append(own.cost_at(other.end) / other.costs[-1])
        return over_seeds(ratios)


def _compared(cost: float, fids: Mapping[int, tuple[float, float]], is_interpolated: bool) -> _Compared | None:
    if not fids:
        return None
    own, other = ({seed: pair[place] for seed, pair in fids.items()} for place in (0, 1))
    return _Compared(cost, own, other, is_interpolated)


def _fid_at(cost: float, points: Sequence[Point], which: Cost) -> float | None:
    """As measured at the end, else on the fit; None without enough points, and before the first."""
    if getattr(points[-1], which) <= cost * (1 + _SAME_COST):
        return points[-1].fid
    fit = _fit(points, which)
    return fit.value_at(cost) if fit else None


def _fit(points: Sequence[Point], which: Cost) -> Curve | None:
    return Curve.of([getattr(point, which) for point in points], [point.fid for point in points])


def _tested(pairs: Sequence[_Pair]) -> list[AtEqualCost]:
    """The rows that stand side by side, with their tests adjusted over all of them."""
    # The tests at equal MACs.
    at_macs = [pair.at_macs() for pair in pairs]
    p_values: dict[int, float] = {}
    for place, (pair, fids) in enumerate(zip(pairs, at_macs, strict=True)):
        p_value = paired_p_value(fids.row, fids.reference) if fids else None
        if p_value is not None and not pair.row.is_smoke and not pair.row.is_judged_by_teacher:
            p_values[place] = p_value
    adjusted = dict(zip(p_values, holm(list(p_values.values())), strict=True))

    # Each row with all that is known of it.
    found = []
    for place, (pair, fids) in enumerate(zip(pairs, at_macs, strict=True)):
        by_time = pair.at_equal("seconds")
        one = AtEqualCost(
            row=pair.row,
            reference=pair.reference,
            at_macs_p=adjusted.get(place),
            seconds=by_time and by_time.cost,
            at_time=by_time and by_time.difference,
            at_iterations=pair.row.difference("fid"),
            at_iterations_p=pair.row.fid_p_value,
            macs_to_target=pair.to_target("macs"),
            time_to_target=pair.to_target("seconds"),
        )
        if fids:
            differences = [fids.row[seed] - fids.reference[seed] for seed in fids.row]
            one = replace(
                one,
                macs_ratio=1.0 if fids.is_interpolated else pair.macs_ratio,
                is_trained=not fids.is_interpolated,
                macs=fids.cost,
                at_macs=fids.difference,
                detectable=detectable_difference(differences, len(p_values)) if place in p_values else None,
                fids_at_macs=fids.row,
            )
        found.append(one)
    return found
