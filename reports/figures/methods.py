"""Methods beside each other: what each does to FID, and what it adds or saves in parameters, MACs and time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.figure import Figure

from tread_bench.core.config.choices import PLAINLY_DENSE
from tread_bench.core.numbers.statistics import MeanInterval
from tread_bench.reports.claims.published import methods_note, published_method, stands_beside_published
from tread_bench.reports.figures.bases import Basis
from tread_bench.reports.figures.drawing import speed_ups
from tread_bench.reports.figures.forest import Column, dot, forest, speed_up, still, write
from tread_bench.reports.figures.panels import drawn_of
from tread_bench.reports.figures.picture import Picture, picture_of
from tread_bench.reports.figures.style import INK, MUTED, clean, marks_of
from tread_bench.reports.rows import requested
from tread_bench.reports.rows.architectures import by_architecture
from tread_bench.reports.rows.row import Row
from tread_bench.reports.text.numbers import DASH, decimals, millions, number, words

_LINE = 0.34  # inches
_MOST = 30  # rows in the picture


class _Line(NamedTuple):
    row: Row
    difference: MeanInterval | None
    macs: float | None  # of a training step, mean over the schedule, dense = 1

    def on(self, basis: Basis) -> _Line:
        """Return the line with its difference on that basis."""
        return self._replace(difference=basis.shown(self.row))


def methods(rows: Sequence[Row], bases: Sequence[Basis], suffix: str = "") -> list[Picture]:
    """Draw a forest of the paired FID differences; drawn where method, auxiliary loss or schedule tells rows apart.

    A picture at equal training cost, where rows were compared so, and one at equal iterations.
    """
    lines = _lines(rows)
    if not _differ(lines) or len(by_architecture(line.row for line in lines)) > 1:
        return []
    return [_picture(rows, [line.on(basis) for line in lines], basis, suffix) for basis in bases]


def _picture(rows: Sequence[Row], lines: Sequence[_Line], basis: Basis, suffix: str) -> Picture:
    places = decimals(row.fid.mean for row in rows if row.fid)
    drawn, left_out = drawn_of(lines, lambda line: line.row, _MOST)
    return picture_of(
        "methods", _figure(drawn, places, basis), [_numbers(line, places) for line in lines],
        suffix, basis=basis, is_open=_title(lines) == "Methods", kind=_title(lines),
        drawn=[(line, _extra(line.row)) for line in drawn], places=places, left_out=left_out,
        taught=[line.row.short_label for line in lines if line.row.is_evaluated_by_teacher],
        note=methods_note() if _has_published(lines) else "",
    )  # fmt: skip


def _lines(rows: Sequence[Row]) -> list[_Line]:
    dense = {row.group: row.cost("train_step_macs") for row in rows if row.is_dense}
    lines = []
    for row in rows:
        if not row.is_dense and row.done and not requested.is_evaluated_only(row.first):
            whole = dense.get(row.group)
            own = mean_train_step_macs(row)
            lines.append(_Line(row, row.difference("fid"), own / whole if own and whole else None))
    return lines


def mean_train_step_macs(row: Row) -> float | None:
    """Of one image, over the row's schedule."""
    return row.cost("mean_train_step_macs") or row.cost("train_step_macs")


def _differ(lines: Sequence[_Line]) -> bool:
    """Whether method, auxiliary losses or schedule tell some of these rows apart that the routes do not."""
    if not any(line.difference for line in lines):
        return False
    firsts = [line.row.first for line in lines]
    kinds = {(requested.method(first), requested.scheduled(first)) for first in firsts}
    others = [line for line in lines if not requested.stands_beside_routes(line.row.first)]
    are_placements = all(requested.is_plain_routing(line.row.first) for line in others)
    are_placements = are_placements and len({tuple(line.row.spans) for line in others}) > 1
    return len(kinds) > 1 and not are_placements


def _has_published(lines: Sequence[_Line]) -> bool:
    return _title(lines) == "Methods" and stands_beside_published(line.row for line in lines)


def _title(lines: Sequence[_Line]) -> str:
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


def _numbers(line: _Line, places: int) -> dict[str, str]:
    row = line.row
    judged, dense = row.cost("evaluated_forward_macs"), row.cost("dense_forward_macs")
    return {
        "row": row.label,
        "method": requested.method(row.first),
        "FID difference to dense [95 %]": words(line.difference, places),
        "published FID, another protocol": published_method(row) or DASH,
        "seeds": str(line.difference.n) if line.difference else DASH,
        "parameters of the method": number(row.cost("method_params"), 0),
        "parameters of auxiliary losses": number(row.cost("auxiliary_params"), 0),
        "training MACs, dense = 1": number(line.macs),
        "MACs when sampling, dense = 1": number(judged / dense if judged and dense else None),
        **speed_ups(row),
    }


def _figure(lines: Sequence[_Line], places: int, basis: Basis) -> Figure:
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
            speed_up(speed, y, line.row)
    still(fids, 0)
    still(speed, 1)
    fids.set_xlabel(f"ΔFID at {basis.words}")
    speed.set_xlabel("speed-up")
    return figure
