"""How fast a training step is: against the number of tokens, beside its ideal, and where its time goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tread_bench.core.numbers.statistics import MeanInterval
from tread_bench.core.stored.records import STEP_PARTS, StepPart
from tread_bench.reports.claims.break_even import Line, TimedRow, in_words, is_about_speed, lines_of, rule
from tread_bench.reports.figures import style
from tread_bench.reports.figures.drawing import GRID_COLUMNS, grid, legend_above
from tread_bench.reports.figures.forest import Column, forest, speed_up, stack, still
from tread_bench.reports.figures.lines import Point, aside, draw_line, tokens_below
from tread_bench.reports.figures.panels import drawn_of
from tread_bench.reports.figures.picture import Picture, picture_of
from tread_bench.reports.figures.style import BETTER, COLOURS, INK, MUTED, RULE, WORSE, clean, marks_of
from tread_bench.reports.rows.row import Row
from tread_bench.reports.text.numbers import DASH, number

_LINE = 0.36  # inches of a bar
_MOST = 30  # rows in the picture
_COLOURS: Mapping[StepPart, str] = dict(zip(STEP_PARTS, (*COLOURS, MUTED), strict=True))


def break_even(rows: Sequence[Row], suffix: str = "") -> Picture | None:
    """Draw a panel per architecture, a line per route over the tokens, its ideal dashed; of rows that were only
    timed.
    """
    lines = lines_of(rows) if is_about_speed(rows) else []
    routed = [line for line in lines if not _is_control(line)]
    if not any(len(line.points) > 1 for line in routed):
        return None
    return picture_of(
        "break_even", _over_tokens(lines), [_timed(line, point) for line in lines for point in line.points], suffix,
        rule=rule(rows), routed=[(line.architecture, in_words(line)) for line in routed],
    )  # fmt: skip


def _is_control(line: Line) -> bool:
    return all(point.row.is_dense for point in line.points)


def _timed(line: Line, point: TimedRow) -> dict[str, str]:
    row, start = point.row, line.pays_from
    return {
        "row": row.label,
        "tokens": f"{point.tokens:,}",
        "images per step": f"{row.timings[0].batch:,}",
        "ideal": number(row.ideal_speedup),
        "achieved": number(point.speedup, 3),
        "95 % low": number(point.low, 3),
        "95 % high": number(point.high, 3),
        "step ms": number(row.timing("step_time_ms"), 1),
        "pays from": "control" if _is_control(line) else f"{start.tokens:,}" if start else "never here",
    }


def _over_tokens(lines: Sequence[Line]) -> Figure:
    architectures = list(dict.fromkeys(line.architecture for line in lines))
    figure, panels = grid(len(architectures), 3.6, sharey=True)
    for name, axes in zip(architectures, panels, strict=True):
        _panel_of_tokens(axes, [line for line in lines if line.architecture == name])
        axes.set_title(clean(name))
    for axes in panels[::GRID_COLUMNS]:
        axes.set_ylabel("speed-up of a training step", color=MUTED)
    return figure


def _panel_of_tokens(axes: Axes, lines: Sequence[Line]) -> None:
    # The level of dense training, and the control beside the routes.
    axes.axhline(1, color=MUTED, linewidth=1, zorder=0.5)
    looks = style.looks(_is_control(one) for one in lines)
    ordered = sorted(zip(lines, looks, strict=True), key=lambda drawn: _is_control(drawn[0]))
    for k, (one, (colour, marker)) in enumerate(ordered):
        _draw_route(axes, one, 1.05 ** aside(k, len(lines)), (MUTED if _is_control(one) else colour, marker))

    tokens_below(axes, {point.tokens for line in lines for point in line.points})
    axes.legend(loc="upper left", fontsize=8)


def _draw_route(axes: Axes, one: Line, apart: float, look: style.Look) -> None:
    """Achieved speed-ups with their intervals, the ideal, and a ring where the route begins to pay."""
    places = [point.tokens * apart for point in one.points]
    ideal = [point.row.ideal_speedup or 1.0 for point in one.points]
    if not _is_control(one):
        axes.plot(places, ideal, color=look[0], linewidth=1, linestyle="--", alpha=0.7)
    achieved = [MeanInterval(point.speedup, point.low, point.high, 1) for point in one.points]
    points = [Point(*each) for each in zip((point.row for point in one.points), places, achieved, strict=True)]
    draw_line(axes, points, look, one.route)
    if start := one.pays_from:
        axes.plot([start.tokens * apart], [start.speedup], marker="o", markersize=12, markerfacecolor="none",
                  markeredgecolor=INK, markeredgewidth=1.2, linestyle="none")  # fmt: skip


class Step(NamedTuple):
    """A training step of one row in shares of its dense step: what it would take without overhead, and what it takes.

    `low` and `high` are the 95 % bootstrap interval of `taken`. Both parts beside `taken` follow from it: `overhead` is
    time that ideal routing would not need, `saved` is what the row does not need of a dense step.
    """

    row: Row
    ideal_speedup: float
    achieved: tuple[float, float, float]  # dense over routed: ratio, low, high

    @property
    def ideal(self) -> float:
        return 1 / self.ideal_speedup

    @property
    def taken(self) -> float:
        return 1 / self.achieved[0]

    @property
    def overhead(self) -> float:
        return self.taken - self.ideal

    @property
    def waited(self) -> float | None:
        """What the training loop waits for a batch beside each step; None: not measured."""
        share = self.row.timing("data_wait_share")
        return None if share is None else self.taken * share / (1 - share) if share < 1 else None


def speedups(rows: Sequence[Row], suffix: str = "") -> Picture | None:
    """Achieved beside ideal speed-up of a training step, and where the time of a dense step goes.

    With several architectures they are shown with the gains by family.
    """
    known = ((row, row.ideal_speedup, row.speedup) for row in rows if row.timed_with == row.group.backbone)
    steps = [Step(row, ideal, achieved) for row, ideal, achieved in known if ideal and achieved]
    if not any(step.row.spans for step in steps) or len({row.group for row in rows}) > 1:
        return None
    drawn, left_out = drawn_of(steps, lambda step: step.row, _MOST)
    numbers = [_times(step) for step in steps]
    return picture_of("speedup", _draw_steps(drawn), numbers, suffix, drawn=drawn, left_out=left_out)


def _times(step: Step) -> dict[str, str]:
    ratio, low, high = step.achieved
    dense_ms = step.row.dense_step_ms
    saving = 1 - step.ideal
    attention = step.row.cost("attention_macs")
    forward = step.row.cost("forward_macs")
    return {
        "row": step.row.label,
        "ideal speed-up": number(step.ideal_speedup),
        "achieved": number(ratio, 3),
        "95 % low": number(low, 3),
        "95 % high": number(high, 3),
        "dense step ms": number(dense_ms, 1),
        "ideal step ms": number(dense_ms and dense_ms * step.ideal, 1),
        "step ms": number(dense_ms and dense_ms * step.taken, 1),
        "overhead ms": number(dense_ms and dense_ms * step.overhead, 1),
        "overhead, share of the ideal saving": f"{100 * step.overhead / saving:.0f} %" if saving > 0 else DASH,
        "attention, share of forward MACs": f"{100 * attention / forward:.0f} %" if attention and forward else DASH,
        "data wait ms": number(dense_ms and step.waited and dense_ms * step.waited, 1),
    }


def _draw_steps(steps: Sequence[Step]) -> Figure:
    # Speed-ups beside the parts of a step, a line for each row.
    figure, ((speed, parts),) = forest([[clean(step.row.label) for step in steps]], (Column(1), Column(1.25)))
    for y, step in enumerate(steps):
        with marks_of(step.row.label, speed, parts):
            speed_up(speed, y, step.row)
            stack(parts, y, _shares(step))

    # Axes and legend.
    still(speed, 1)
    still(parts, 100)
    speed.set_xlabel("speed-up of a training step")
    parts.set(xlim=(0, 100 * max(1.0, *(step.taken for step in steps)) + 1), xlabel="% of a dense step")
    legend_above(parts, {"ideal step": BETTER, "overhead": WORSE, "saved": RULE})
    return figure


def _shares(step: Step) -> dict[str, float]:
    """Colour -> % of a dense step; a step that is faster than its ideal has no overhead."""
    return {
        BETTER: 100 * min(step.ideal, step.taken),
        WORSE: 100 * max(0.0, step.overhead),
        RULE: 100 * max(0.0, 1 - step.taken),
    }


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
        "step_parts", _draw_parts(drawn, occurring), [_milliseconds(parts, occurring) for parts in known], suffix,
        left_out=left_out, beyond=[found for parts in drawn if (found := _most_beyond(parts))],
    )  # fmt: skip


def parts_of(row: Row) -> Parts | None:
    """None where the row's step was not profiled, or its ideal is not known."""
    ideal = row.ideal_speedup
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


def _milliseconds(parts: Parts, occurring: Sequence[StepPart]) -> dict[str, str]:
    return {
        "row": parts.row.label,
        "step ms": number(parts.row.step_ms, 1),
        **{f"{part} ms": number(parts.taken_ms.get(part, 0.0), 1) for part in occurring},
        "ideal step ms": number(parts.ideal_ms, 1),
        **{f"{part} beyond ideal ms": number(parts.beyond_ms[part], 1, True) for part in occurring},
    }


def _draw_parts(lines: Sequence[Parts], occurring: Sequence[StepPart]) -> Figure:
    # A bar for each row, from its parts side by side.
    figure, ((axes,),) = forest([[clean(parts.row.label) for parts in lines]], [Column(1)], _LINE)
    for y, parts in enumerate(lines):
        with marks_of(parts.row.label, axes):
            stack(axes, y, {_COLOURS[part]: parts.taken_ms.get(part, 0.0) for part in occurring})
            axes.plot([parts.ideal_ms], [y], marker="|", markersize=19, markeredgewidth=2.2, color=INK)

    # Axes and legend.
    axes.set_xlabel("ms of a training step")
    legend_above(axes, {part: _COLOURS[part] for part in occurring})
    return figure
