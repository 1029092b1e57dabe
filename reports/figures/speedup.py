"""How much of the ideal gain in speed is achieved, and what of the rest is known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tread_bench.reports.figures.drawing import legend_above
from tread_bench.reports.figures.forest import Column, forest, speed_up, still
from tread_bench.reports.figures.panels import drawn_of
from tread_bench.reports.figures.picture import Picture, picture_of
from tread_bench.reports.figures.style import BETTER, RULE, WORSE, clean, marks_of
from tread_bench.reports.rows.row import Row
from tread_bench.reports.text.numbers import DASH, number

_MOST = 30  # rows in the picture


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
    known = ((row, row.cost("ideal_speedup"), row.speedup) for row in rows if row.first.backbone == row.group.backbone)
    steps = [Step(row, ideal, achieved) for row, ideal, achieved in known if ideal and achieved]
    if not any(step.row.spans for step in steps) or len({row.group for row in rows}) > 1:
        return None
    drawn, left_out = drawn_of(steps, lambda step: step.row, _MOST)
    numbers = [_numbers(step) for step in steps]
    return picture_of("speedup", _figure(drawn), numbers, suffix, drawn=drawn, left_out=left_out)


def _numbers(step: Step) -> dict[str, str]:
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


def _figure(steps: Sequence[Step]) -> Figure:
    # Speed-ups beside the parts of a step, a line for each row.
    figure, ((speed, parts),) = forest([[clean(step.row.label) for step in steps]], (Column(1), Column(1.25)))
    for y, step in enumerate(steps):
        with marks_of(step.row.label, speed, parts):
            speed_up(speed, y, step.row)
            _parts(parts, y, step)

    # Axes and legend.
    still(speed, 1)
    still(parts, 100)
    speed.set_xlabel("speed-up of a training step")
    parts.set(xlim=(0, 100 * max(1.0, *(step.taken for step in steps)) + 1), xlabel="% of a dense step")
    legend_above(parts, {"ideal step": BETTER, "overhead": WORSE, "saved": RULE})
    return figure


def _parts(axes: Axes, y: int, step: Step) -> None:
    """Stacked from 0; a step that is faster than its ideal has no overhead."""
    axes.barh(y, 100 * min(step.ideal, step.taken), height=0.5, color=BETTER, linewidth=0)
    axes.barh(y, 100 * max(0.0, step.overhead), left=100 * step.ideal, height=0.5, color=WORSE, linewidth=0)
    axes.barh(y, 100 * max(0.0, 1 - step.taken), left=100 * step.taken, height=0.5, color=RULE, linewidth=0)
