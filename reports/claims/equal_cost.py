"""Rows beside their references at equal cost: the FID at equal training MACs and at equal measured time, and what it
took to reach the reference's end.

The reference is the row that a row's budget names, and without a budget the plainly dense row of its group.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import mean
from typing import Literal, NamedTuple

from tread_bench.core.config.training import BUDGET_TOLERANCE
from tread_bench.core.numbers.curves import Curve, Reached, over_seeds, slope
from tread_bench.core.numbers.power import detectable_difference
from tread_bench.core.numbers.statistics import (
    MeanInterval,
    Seeds,
    holm,
    hull,
    log_ratio,
    paired_difference,
    paired_p_value,
)
from tread_bench.core.stored.records import paired_seed
from tread_bench.reports.frame import wait_ms
from tread_bench.reports.rows import requested
from tread_bench.reports.rows.architectures import side_by_side
from tread_bench.reports.rows.row import Row

SAME_COST = 1e-3  # relative difference up to which two costs are compared as they are

Cost = Literal["macs", "seconds"]


class EvaluatedPoint(NamedTuple):
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
    at_macs: MeanInterval | None = None
    at_macs_p: float | None = None
    at_time: MeanInterval | None = None
    macs_to_target: Reached | None = None  # MACs to come down to the reference's end, over the reference's own
    time_to_target: Reached | None = None
    detectable: float | None = None  # smallest FID difference at equal MACs that these seeds find with 80 % power
    fids_at_macs: Mapping[int, float] = field(default_factory=dict)  # the row's own, by paired seed
    references_at_macs: Mapping[int, float] = field(default_factory=dict)
    # The row's FIDs and its reference's at equal time: for its speed-up, and for both ends of the speed-up's interval.
    fids_at_times: tuple[tuple[Seeds, Seeds], ...] = ()
    is_evaluated_at_time: bool = False  # True: the row was evaluated there; False: curves were interpolated

    @property
    def is_of_its_own(self) -> bool:
        """Whether equal MACs are something else than equal iterations, of trainings that cost the same as they are."""
        return self.at_macs is not None and (not self.is_trained or bool(requested.macs_of(self.row.first)))

    @property
    def is_timed_in_pairs(self) -> bool:
        """Whether its steps were timed in turn with those of its reference: not for another architecture or batch."""
        return self.row.dense_step_ms == self.reference.dense_step_ms


def equal_costs(rows: Sequence[Row]) -> list[AtEqualCost]:
    """Return every row that has a reference, in the order of the rows; empty where nothing was trained beside a
    reference.
    """
    found = []
    for members in side_by_side(rows):
        courses = {id(row): _Course(row) for row in members}
        pairs = [(row, reference) for row in members if (reference := reference_of(row, members))]
        found += _tested([_Pair(courses[id(row)], courses[id(reference)]) for row, reference in pairs])
    order = {id(row): place for place, row in enumerate(rows)}
    return sorted(found, key=lambda one: order[id(one.row)])


def reference_of(row: Row, rows: Sequence[Row]) -> Row | None:
    """Return the row that it is compared with at equal cost; None for a reference, and for a row that was not
    trained.
    """
    if row.is_dense or requested.is_evaluated_only(row.first):
        return None
    alike = [other for other in rows if other.group == row.group and other is not row]
    name = requested.macs_of(row.first)
    if name:
        return next((other for other in alike if (other.first.suite, other.name) == (row.first.suite, name)), None)
    cells = {record.reference for record in row.records}
    return next((other for other in alike if other.is_dense and any(r.cell in cells for r in other.records)), None)


def curve(row: Row, seed: int) -> list[EvaluatedPoint]:
    """Return the row's evaluated points of one (paired) seed under its group's protocol, by iteration.

    Empty for a row that evaluates what another row trained.
    """
    record = next((one for one in row.done if paired_seed(one) == seed), None)
    if record is None:
        return []
    step_s = step_seconds(row)
    points = []
    for evaluation in sorted(record.evaluations, key=lambda e: e.iteration):
        i, macs = evaluation.iteration, evaluation.training_macs
        if i and macs and evaluation.fid is not None and (evaluation.protocol or "") == row.group.protocol:
            points.append(EvaluatedPoint(i, macs, step_s and step_s * i, evaluation.fid))
    return points


def seeds_of(row: Row) -> list[int]:
    """Paired seeds of its finished cells."""
    return sorted({paired_seed(record) for record in row.done})


def step_seconds(row: Row, slower: float = 1.0) -> float | None:
    """Seconds of a training step: the paired step time behind the speed-up, and the mean wait for a batch.

    None where steps were not timed, and for a schedule, which has two kinds of steps of which one was timed. A wait
    that was not measured counts as none.

    Args:
        slower: by this factor than measured, without the wait.
    """
    if row.step_ms is None or row.has_dense_part:
        return None
    waits = [wait_ms(timing) for timing in row.timings]
    return (row.step_ms * slower + sum(waits) / len(waits)) / 1e3


class _Compared(NamedTuple):
    """FIDs of a row and its reference at one cost."""

    cost: float
    row: Seeds
    reference: Seeds
    is_interpolated: bool

    @property
    def difference(self) -> MeanInterval | None:
        return paired_difference(self.row, self.reference)


class _Course:
    """The trainings of one row: their evaluated points by seed, and the fits through them."""

    def __init__(self, row: Row) -> None:
        self.row = row
        found = {seed: curve(row, seed) for seed in seeds_of(row)}

        # Only seeds that were evaluated where the training of the others ends.
        last = max((points[-1].iteration for points in found.values() if points), default=0)
        self.points = {seed: points for seed, points in found.items() if points and points[-1].iteration == last}
        self.end = next((points[-1] for points in self.points.values()), None)
        self._fits: dict[int, Curve | None] = {}

    @property
    def depends_on_length(self) -> bool:
        """Whether what is measured before the end is not what a shorter training would have."""
        return requested.depends_on_length(self.row.first)

    @property
    def is_lowest_at_end(self) -> bool:
        """Whether its FID is lower at its end than at every earlier evaluation, beyond chance."""
        fids: dict[int, dict[int, float]] = {}
        for seed, points in self.points.items():
            for point in points:
                fids.setdefault(point.iteration, {})[seed] = point.fid
        end = fids.pop(max(fids, default=0), {})
        changes = [log_ratio(end, earlier) for earlier in fids.values()]
        return all(change is not None and change.is_below(0) for change in changes)

    def fit(self, seed: int) -> Curve | None:
        """Over iterations, to which any cost is proportional without a schedule."""
        if seed not in self._fits:
            points = self.points[seed]
            self._fits[seed] = Curve.of([point.iteration for point in points], [point.fid for point in points])
        return self._fits[seed]

    def whole(self, cost: Cost) -> float | None:
        """Of the whole training."""
        return getattr(self.end, cost) if self.end else None

    def fid_at(self, share: float, seed: int) -> float | None:
        """At a share of the whole cost: as measured at the end, else on the fit; None beyond the points."""
        points = self.points[seed]
        if share >= 1 - SAME_COST:
            return points[-1].fid
        fit = None if self.depends_on_length else self.fit(seed)
        return fit.value_at(share * points[-1].iteration) if fit else None

    def slope_at(self, iteration: int, fids: Seeds) -> float | None:
        """Change of FID per e-fold of iterations around `iteration`, at which these FIDs were measured, by seed.

        Least squares through the means over the seeds, from half of the iterations on; under a schedule or a decay,
        only through the ends of trainings. None with one point.
        """
        means = {iteration: mean(fids.values())}
        points = next(iter(self.points.values()), [])
        for place, point in enumerate(points):
            is_end_of_training = place == len(points) - 1
            if point.iteration >= iteration / 2 and (is_end_of_training or not self.depends_on_length):
                means[point.iteration] = mean(self.points[seed][place].fid for seed in fids)
        return slope([*means], [*means.values()])


class _Pair:
    """A row and its reference."""

    def __init__(self, own: _Course, reference: _Course) -> None:
        self.own = own
        self.reference = reference
        self.row = own.row
        self.seeds = [seed for seed in own.points if seed in reference.points]

    def _wholes(self, cost: Cost) -> tuple[float, float] | None:
        own, reference = self.own.whole(cost), self.reference.whole(cost)
        return (own, reference) if self.seeds and own and reference else None

    @property
    def macs_ratio(self) -> float | None:
        """Of the whole trainings."""
        wholes = self._wholes("macs")
        return wholes[0] / wholes[1] if wholes else None

    @property
    def is_trained(self) -> bool:
        """Whether both were trained to one cost."""
        tolerance = BUDGET_TOLERANCE if requested.macs_of(self.row.first) else SAME_COST
        return self.macs_ratio is not None and abs(self.macs_ratio - 1) <= tolerance

    @cached_property
    def at_macs(self) -> _Compared | None:
        wholes = self._wholes("macs")
        if wholes and self.is_trained:
            return self._compared(wholes[1], (1.0, 1.0))
        return self.at_equal("macs")

    def at_equal(self, cost: Cost) -> _Compared | None:
        """At the end of the cheaper of the two; the other is interpolated there."""
        wholes = self._wholes(cost)
        return self._at_end_of_cheaper(*wholes) if wholes else None

    def at_times(self) -> list[_Compared]:
        """At equal measured time, if the speed-up is the measured one, and at either end of its interval.

        Empty if unknown. The ends are left out for another architecture or batch, whose steps were timed beside its own
        dense step, not in pairs with the reference's. A row with a budget was evaluated there; of any other, curves are
        interpolated.
        """
        if requested.macs_of(self.row.first):
            return self._evaluated_at_times()
        if self.row.dense_step_ms == self.reference.row.dense_step_ms:
            return self._interpolated_at_times()
        measured = self.at_equal("seconds")
        return [measured] if measured else []

    def _evaluated_at_times(self) -> list[_Compared]:
        """From the evaluation at equal time; at the ends of the interval, with the slope of the row's own curve."""
        # What was evaluated, beside the reference's end.
        found = {paired_seed(r): r for r in self.row.done if r.equal_time and r.at_equal_time}
        planned = next((record.equal_time for record in found.values()), None)
        own = {}
        for seed in self.seeds:
            record = found.get(seed)
            evaluation = record.at_equal_time if record and record.equal_time == planned else None
            if evaluation and evaluation.fid is not None and evaluation.protocol == self.row.group.protocol:
                own[seed] = evaluation.fid
        if planned is None or not own:
            return []
        reference = {seed: self.reference.points[seed][-1].fid for seed in own}
        seconds = self.reference.whole("seconds") or 0.0
        measured = _Compared(seconds, own, reference, is_interpolated=False)

        # What an error of the speed-up would change.
        fall = self.own.slope_at(planned.iteration, own)
        if planned.low is None or planned.high is None or fall is None:
            return [measured]
        shifts = [fall * math.log(end / planned.iteration) for end in (planned.low, planned.high)]
        ends = [{seed: fid + shift for seed, fid in own.items()} for shift in shifts]
        return [measured, *(measured._replace(row=fids) for fids in ends)]

    def _interpolated_at_times(self) -> list[_Compared]:
        """On the curves; empty where one of the three would be beyond the evaluated points."""
        wholes = self._wholes("seconds")
        if wholes is None or self.row.speedup is None or self.own.end is None:
            return []
        measured, low, high = self.row.speedup
        found = []
        for speedup in (measured, low, high):
            step_s = step_seconds(self.row, measured / speedup)
            assert step_s is not None, "its seconds are known"
            compared = self._at_end_of_cheaper(step_s * self.own.end.iteration, wholes[1])
            if compared is None:
                return []
            found.append(compared)
        return found

    def _at_end_of_cheaper(self, own: float, reference: float) -> _Compared | None:
        end = min(own, reference)
        return self._compared(end, (end / own, end / reference))

    def _compared(self, cost: float, shares: tuple[float, float]) -> _Compared | None:
        """At these shares of the whole trainings; None where no seed has both FIDs."""
        own: dict[int, float] = {}
        reference: dict[int, float] = {}
        for seed in self.seeds:
            fid, reference_fid = self.own.fid_at(shares[0], seed), self.reference.fid_at(shares[1], seed)
            if fid is not None and reference_fid is not None:
                own[seed] = fid
                reference[seed] = reference_fid
        is_interpolated = min(shares) < 1 - SAME_COST
        return _Compared(cost, own, reference, is_interpolated) if own else None

    def to_target(self, cost: Cost) -> Reached | None:
        """Cost to come down to the reference's end on the fit of either, over the reference's whole cost.

        None where the reference came down to it before its end, as far as its seeds tell: its cost would be chance.
        """
        wholes = self._wholes(cost)
        if wholes is None or self.own.depends_on_length or self.reference.depends_on_length:
            return None
        if not self.reference.is_lowest_at_end:
            return None
        ratios = []
        for seed in self.seeds:
            own, reference = self.own.fit(seed), self.reference.fit(seed)
            if own and reference:
                share = own.cost_at(reference.end) / own.costs[-1]
                ratios.append(share * wholes[0] / wholes[1])
        return over_seeds(ratios)


def _tested(pairs: Sequence[_Pair]) -> list[AtEqualCost]:
    """The rows that stand side by side, with their tests adjusted over all of them."""
    p_values: dict[int, float] = {}
    for place, pair in enumerate(pairs):
        p_value = paired_p_value(pair.at_macs.row, pair.at_macs.reference) if pair.at_macs else None
        if p_value is not None and not pair.row.is_smoke and not pair.row.is_evaluated_by_teacher:
            p_values[place] = p_value
    adjusted = dict(zip(p_values, holm(list(p_values.values())), strict=True))
    return [_at_equal_cost(pair, adjusted.get(place), len(p_values)) for place, pair in enumerate(pairs)]


def _at_equal_cost(pair: _Pair, p_value: float | None, tests: int) -> AtEqualCost:
    """A row with all that is known of it; `p_value` is that of its test, one of so many."""
    # At equal time and equal iterations, and what it costs to come down to the reference.
    by_time = pair.at_times()
    one = AtEqualCost(
        row=pair.row,
        reference=pair.reference.row,
        at_macs_p=p_value,
        seconds=by_time[0].cost if by_time else None,
        at_time=hull([found.difference for found in by_time]),
        is_evaluated_at_time=bool(requested.macs_of(pair.row.first)),
        macs_to_target=pair.to_target("macs"),
        time_to_target=pair.to_target("seconds"),
    )

    # At equal training MACs.
    fids = pair.at_macs
    if fids is None:
        return one
    differences = [fids.row[seed] - fids.reference[seed] for seed in fids.row]
    return replace(
        one,
        macs_ratio=1.0 if fids.is_interpolated else pair.macs_ratio,
        is_trained=not fids.is_interpolated,
        macs=fids.cost,
        at_macs=fids.difference,
        detectable=None if p_value is None else detectable_difference(differences, tests),
        fids_at_macs=fids.row,
        references_at_macs=fids.reference,
        fids_at_times=tuple((found.row, found.reference) for found in by_time) if len(by_time) == 3 else (),
    )
