"""What routing does to each architecture, and methods to one: FID beside dense, cost and speed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.figure import Figure

from tread_bench.core.config.choices import PLAINLY_DENSE
from tread_bench.core.numbers.statistics import MeanInterval
from tread_bench.reports.claims.depths import lines_of as depth_lines
from tread_bench.reports.figures.bases import Basis
from tread_bench.reports.figures.drawing import speed_ups
from tread_bench.reports.figures.forest import Column, dot, forest, speed_up, still, write
from tread_bench.reports.figures.panels import drawn_of
from tread_bench.reports.figures.picture import Picture, picture_of
from tread_bench.reports.figures.style import INK, MUTED, clean, marks_of
from tread_bench.reports.rows import requested
from tread_bench.reports.rows.architectures import by_architecture, what_differs
from tread_bench.reports.rows.row import Row
from tread_bench.reports.text.numbers import DASH, decimals, millions, number, words

_LINE = 0.34  # inches of a method
_MOST = 30  # rows in the picture


class _Gain(NamedTuple):
    """One routed row; `leads` marks the first of its architecture."""

    row: Row
    leads: bool
    difference: MeanInterval | None


def routing_gain(rows: Sequence[Row], bases: Sequence[Basis], suffix: str = "") -> list[Picture]:
    """Draw a forest plot over the routed rows of several architectures, with relative speed.

    A picture at equal training cost, where rows were compared so, and one at equal iterations.
    """
    groups = {line.row.group for line in _gains(rows, None)}
    if len(groups) < 2 or (_kind(rows) == "architecture" and depth_lines(rows)):
        return []  # depths of one family have a picture of their own
    found: list[Basis | None] = [*bases]
    return [_picture_of_gain(rows, basis, suffix) for basis in found or [None]]


def _picture_of_gain(rows: Sequence[Row], basis: Basis | None, suffix: str) -> Picture:
    lines = _gains(rows, basis)
    places = decimals(row.fid.mean for row in rows if row.fid)
    return picture_of(
        "routing_gain", _draw_gains(lines, places, basis), [_gain_numbers(line, rows, places, basis) for line in lines],
        suffix, basis=basis, is_open=True, lines=lines,
        kind=_kind(rows), apart=what_differs(rows), places=places,
    )  # fmt: skip


def _kind(rows: Sequence[Row]) -> str:
    """What the lines are called after."""
    return "family" if len({row.first.family for row in rows}) > 1 else what_differs(rows)


def _gains(rows: Sequence[Row], basis: Basis | None) -> list[_Gain]:
    lines = []
    for members in by_architecture(rows):
        routed = [row for row in members if not row.is_dense and not requested.is_evaluated_only(row.first)]
        lines += [_Gain(row, row is routed[0], basis.shown(row) if basis else None) for row in routed]
    return lines


def _gain_numbers(line: _Gain, rows: Sequence[Row], places: int, basis: Basis | None) -> dict[str, str]:
    row = line.row
    dense = next((r for r in rows if r.is_dense and r.group == row.group), None)
    fids = [basis.fids.get(id(one)) if basis else one and one.fid for one in (dense, row)]
    return {
        "row": row.label,
        "parameters": millions(row.cost("params")),
        "FID, dense → routed": " → ".join(number(fid.mean if fid else None, places) for fid in fids),
        "difference [95 %]": words(line.difference, places),
        "seeds": str(line.difference.n) if line.difference else DASH,
        **speed_ups(row),
    }


def _draw_gains(lines: Sequence[_Gain], places: int, basis: Basis | None) -> Figure:
    # Intervals and speeds beside words, and architectures on the left of the names.
    columns = [Column(0.58), Column(0.42), Column(2.0, "ΔFID [95 % interval]")]
    before = 0.1 + 0.085 * max(len(clean(line.row.architecture, 16)) for line in lines)
    names = [clean(line.row.short_label, 26) for line in lines]
    figure, (panels,) = forest([names], columns, before=before)
    fids, speed, differences = panels

    # A line for each row.
    for y, line in enumerate(lines):
        with marks_of(line.row.label, *panels):
            if line.leads:
                fids.annotate(clean(line.row.architecture, 16), (0.01, y), size=10, va="center",
                              xycoords=("figure fraction", fids.transData))  # fmt: skip
            if line.difference:
                colour = basis.way(line.row) if basis else MUTED
                dot(fids, y, line.difference.mean, line.difference.bounds, colour)
            speed_up(speed, y, line.row)
            write(differences, y, words(line.difference, places), INK if line.difference else MUTED)
    still(fids, 0)
    still(speed, 1)
    at = f"\nat {basis.words} (left is better)" if basis else ""
    fids.set_xlabel(f"ΔFID to own dense{at}")
    speed.set_xlabel("speed-up")
    return figure


class _Method(NamedTuple):
    row: Row
    difference: MeanInterval | None
    macs: float | None  # of a training step, mean over the schedule, dense = 1
    is_paired: bool  # whether its step was timed in turn with the dense row's: not where it has another shape

    def on(self, basis: Basis) -> _Method:
        """Return the line with its difference on that basis."""
        return self._replace(difference=basis.shown(self.row))


def methods(rows: Sequence[Row], bases: Sequence[Basis], suffix: str = "") -> list[Picture]:
    """Draw a forest of the paired FID differences; drawn where method, auxiliary loss or schedule tells rows apart.

    A picture at equal training cost, where rows were compared so, and one at equal iterations.
    """
    lines = _methods(rows)
    if not _differ(lines) or len(by_architecture(line.row for line in lines)) > 1:
        return []
    return [_picture_of_methods(rows, [line.on(basis) for line in lines], basis, suffix) for basis in bases]


def _picture_of_methods(rows: Sequence[Row], lines: Sequence[_Method], basis: Basis, suffix: str) -> Picture:
    places = decimals(row.fid.mean for row in rows if row.fid)
    drawn, left_out = drawn_of(lines, lambda line: line.row, _MOST)
    return picture_of(
        "methods", _draw_methods(drawn, places, basis), [_method_numbers(line, places) for line in lines],
        suffix, basis=basis, is_open=_title(lines) == "Methods", kind=_title(lines),
        drawn=[(line, _extra(line.row)) for line in drawn], places=places, left_out=left_out,
        taught=[line.row.short_label for line in lines if line.row.is_evaluated_by_teacher],
        unpaired=[line.row.short_label for line in drawn if not line.is_paired],
    )  # fmt: skip


def _methods(rows: Sequence[Row]) -> list[_Method]:
    dense = {row.group: row for row in rows if row.is_dense}
    lines = []
    for row in rows:
        if not row.is_dense and row.done and not requested.is_evaluated_only(row.first):
            beside = dense.get(row.group)
            whole = beside.cost("train_step_macs") if beside else None
            own = mean_train_step_macs(row)
            is_paired = beside is None or beside.dense_step_ms == row.dense_step_ms
            lines.append(_Method(row, row.difference("fid"), own / whole if own and whole else None, is_paired))
    return lines


def mean_train_step_macs(row: Row) -> float | None:
    """Of one image, over the row's schedule."""
    return row.cost("mean_train_step_macs") or row.cost("train_step_macs")


def _differ(lines: Sequence[_Method]) -> bool:
    """Whether method, auxiliary losses or schedule tell some of these rows apart that the routes do not."""
    if not any(line.difference for line in lines):
        return False
    firsts = [line.row.first for line in lines]
    kinds = {(requested.method(first), requested.scheduled(first)) for first in firsts}
    others = [line for line in lines if not requested.stands_beside_routes(line.row.first)]
    are_placements = all(requested.is_plain_routing(line.row.first) for line in others)
    are_placements = are_placements and len({tuple(line.row.spans) for line in others}) > 1
    return len(kinds) > 1 and not are_placements


def _title(lines: Sequence[_Method]) -> str:
    methods = {requested.method(line.row.first) for line in lines}
    return "Methods" if len(methods - {PLAINLY_DENSE.name}) > 1 else "Schedules"


def _extra(row: Row) -> str:
    extra = row.extra_params
    params = row.cost("params")
    if params is None:
        return "extra parameters not counted"
    if not extra:
        return "no extra parameters"
    share = extra / (params - (row.cost("method_params") or 0))
    return f"+{_count(extra)} parameters (+{100 * share:.2g} %)"


def _count(params: float) -> str:
    return millions(params) if params >= 1e5 else f"{params:,.0f}"


def _method_numbers(line: _Method, places: int) -> dict[str, str]:
    row = line.row
    judged, dense = row.cost("evaluated_forward_macs"), row.cost("dense_forward_macs")
    return {
        "row": row.label,
        "method": requested.method(row.first),
        "FID difference to dense [95 %]": words(line.difference, places),
        "seeds": str(line.difference.n) if line.difference else DASH,
        "parameters of the method": number(row.cost("method_params"), 0),
        "parameters of auxiliary losses": number(row.cost("auxiliary_params"), 0),
        "training MACs, dense = 1": number(line.macs),
        "MACs when sampling, dense = 1": number(judged / dense if judged and dense else None),
        **(speed_ups(row) if line.is_paired else {"speed-up [95 %]": DASH, "ideal": DASH}),
    }


def _draw_methods(lines: Sequence[_Method], places: int, basis: Basis) -> Figure:
    # A forest beside words and speeds.
    words_of = [Column(1.75, "ΔFID [95 % interval]"), Column(1.35, "extra parameters"), Column(0.85, "train MACs")]
    names = [clean(line.row.short_label) for line in lines]
    figure, (panels,) = forest([names], (Column(0.6), *words_of, Column(0.4)), _LINE)
    fids, difference, extra, macs, speed = panels

    # A line for each row.
    for y, line in enumerate(lines):
        with marks_of(line.row.label, *panels):
            if line.difference:
                dot(fids, y, line.difference.mean, line.difference.bounds, basis.way(line.row))
            write(difference, y, words(line.difference, places), INK if line.difference else MUTED)
            write(extra, y, _extra(line.row).replace(" parameters", ""))
            write(macs, y, f"{number(line.macs)} ×")
            if line.is_paired:
                speed_up(speed, y, line.row)
    still(fids, 0)
    still(speed, 1)
    fids.set_xlabel(f"ΔFID at {basis.words}")
    speed.set_xlabel("speed-up")
    return figure
