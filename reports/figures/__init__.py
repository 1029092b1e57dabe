"""The pictures of a run. Each function draws the rows of one group and returns None where it has nothing to draw."""

from __future__ import annotations

from collections.abc import Sequence

from reports.comparison import Row
from reports.figures import style
from reports.figures.cost import fid_against_cost
from reports.figures.placement import route_placement
from reports.figures.similarity import similarities
from reports.figures.speedup import speedups
from reports.figures.style import Picture

_DRAWN = (route_placement, fid_against_cost, speedups, similarities)
NAMES = ("route_placement", "fid_cost", "speedup", "similarity")


def pictures(rows: Sequence[Row], suffix: str = "") -> list[Picture]:
    """Every picture that the rows of one group allow; `suffix` keeps the names of several groups apart."""
    with style.theme():
        return [picture for draw in _DRAWN if (picture := draw(rows, suffix)) is not None]
