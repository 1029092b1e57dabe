"""Where the time of a training step goes, and which parts of it do not fall with the tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tread_bench.core.stored.records import STEP_PARTS, StepPart
from tread_bench.reports.figures.drawing import legend_above
from tread_bench.reports.figures.forest import Column, forest
from tread_bench.reports.figures.panels import drawn_of
from tread_bench.reports.figures.picture import Picture, picture_of
from tread_bench.reports.figures.style import COLOURS, INK, MUTED, clean, marks_of
from tread_bench.reports.rows.row import Row
from tread_bench.reports.text.numbers import number

_LINE = 0.36  # inches
_MOST = 30  # rows in the picture
_COLOURS: Mapping[StepPart, str] = dict(zip(STEP_PARTS, (*COLOURS, MUTED), strict=True))


class Parts(NamedTuple):
    """The parts of a row's step and what exceeds its ideal, both in milliseconds on the scale of the run's dense step.

    A part exceeds its ideal by what it takes beyond the dense step's own part over the ideal speed-up.
    """

    row: Row
    taken_ms: dict[StepPart, float]
    beyond_ms: dict[StepPart, float]
    ideal_ms: float


def step_parts(rows: Sequence[Row], suffix: str = "") -> Picture | None:
    """Draw a bar for each row, of the parts of its step; drawn where a routed row's step was profiled."""
    known = [parts for row in rows if (parts := parts_of(row))]
    if not any(parts.row.spans for parts in known) or len({row.group for row in rows}) > 1:
        return None
    drawn, left_out = drawn_of(known, lambda parts: parts.row, _MOST)
    occurring = [part for part in STEP_PARTS if any(parts.taken_ms.get(part) for parts in known)]
    return picture_of(
        "step_parts", _figure(drawn, occurring), [_numbers(parts, occurring) for parts in known], suffix,
        left_out=left_out, beyond=[found for parts in drawn if (found := _most_beyond(parts))],
    )  # fmt: skip


def parts_of(row: Row) -> Parts | None:
    """None where the row's step was not profiled, or its ideal is not known."""
    ideal = row.cost("ideal_speedup")
    step_ms, dense_ms = row.step_ms, row.dense_step_ms
    profiled = [timing for timing in row.timings if timing.step_parts and timing.reference_step_parts]
    if not profiled or not ideal or step_ms is None or dense_ms is None:
        return None
    own, dense = profiled[0].step_parts or {}, profiled[0].reference_step_parts or {}
    taken_ms = {part: step_ms * share for part, share in own.items()}
    ideal_ms = {part: dense_ms / ideal * share for part, share in dense.items()}
    beyond_ms = {part: taken_ms.get(part, 0.0) - ideal_ms.get(part, 0.0) for part in STEP_PARTS}
    return Parts(row, taken_ms, beyond_ms, dense_ms / ideal)


def _most_beyond(parts: Parts) -> tuple[Row, StepPart, float] | None:
    """What of a routed row exceeds its ideal most; None where nothing does."""
    part = max(STEP_PARTS, key=parts.beyond_ms.__getitem__)
    if not parts.row.spans or parts.beyond_ms[part] <= 0:
        return None
    return parts.row, part, parts.beyond_ms[part]


def _numbers(parts: Parts, occurring: Sequence[StepPart]) -> dict[str, str]:
    return {
        "row": parts.row.label,
        "step ms": number(parts.row.step_ms, 1),
        **{f"{part} ms": number(parts.taken_ms.get(part, 0.0), 1) for part in occurring},
        "ideal step ms": number(parts.ideal_ms, 1),
        **{f"{part} beyond ideal ms": number(parts.beyond_ms[part], 1, True) for part in occurring},
    }


def _figure(lines: Sequence[Parts], occurring: Sequence[StepPart]) -> Figure:
    # A bar for each row, from its parts side by side.
    figure, ((axes,),) = forest([[clean(parts.row.label) for parts in lines]], [Column(1)], _LINE)
    for y, parts in enumerate(lines):
        with marks_of(parts.row.label, axes):
            _bar(axes, y, parts, occurring)

    # Axes and legend.
    axes.set_xlabel("ms of a training step")
    legend_above(axes, {part: _COLOURS[part] for part in occurring})
    return figure


def _bar(axes: Axes, y: int, parts: Parts, occurring: Sequence[StepPart]) -> None:
    """The parts one after the other, and the ideal step."""
    begin = 0.0
    for part in occurring:
        ms = parts.taken_ms.get(part, 0.0)
        axes.barh(y, ms, left=begin, height=0.5, color=_COLOURS[part], linewidth=0)
        begin += ms
    axes.plot([parts.ideal_ms], [y], marker="|", markersize=19, markeredgewidth=2.2, color=INK)
