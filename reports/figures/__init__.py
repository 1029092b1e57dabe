"""The pictures of a run. Each function draws rows that stand side by side and returns None without anything to draw."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from reports.comparison import Row
from reports.figures import style
from reports.figures.across_times import across_times
from reports.figures.cost import fid_against_cost
from reports.figures.gain import routing_gain
from reports.figures.gradients import gradients
from reports.figures.panels import shown_and_folded
from reports.figures.placement import route_placement
from reports.figures.selectors import selector_differences
from reports.figures.similarity import similarities
from reports.figures.speedup import speedups
from reports.figures.style import Picture

_OF_ALL_ROWS = (routing_gain, selector_differences, route_placement, fid_against_cost, speedups)
_PANEL_PER_ROW = (similarities, across_times, gradients)
NAMES = (
    *("routing_gain", "selectors", "route_placement", "fid_cost", "speedup"),
    *("similarity", "across_times", "gradients"),
)


def pictures(rows: Sequence[Row], suffix: str = "") -> list[Picture]:
    """Every picture that these rows allow; `suffix` keeps the names of several calls apart."""
    with style.theme():
        return list(_pictures(rows, suffix))


def _pictures(rows: Sequence[Row], suffix: str) -> Iterator[Picture]:
    for draw in _OF_ALL_ROWS:
        if picture := draw(rows, suffix):
            yield picture
    shown, folded = shown_and_folded(rows)
    for draw in _PANEL_PER_ROW:
        if picture := draw(shown, suffix):
            yield picture
        if picture := draw(folded, f"{suffix}-others"):
            yield replace(picture, title=f"{picture.title}: other rows", is_folded=True)
