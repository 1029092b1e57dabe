"""The pictures of a run. Each function draws rows of one set and returns None if there is nothing to draw."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from tread_bench.reports.claims.break_even import is_about_speed
from tread_bench.reports.claims.equal_cost import equal_costs
from tread_bench.reports.figures import style
from tread_bench.reports.figures.bases import Basis, bases
from tread_bench.reports.figures.cost import fid_against_cost
from tread_bench.reports.figures.depths import depths
from tread_bench.reports.figures.differences import methods, routing_gain
from tread_bench.reports.figures.gap import gap
from tread_bench.reports.figures.gradients import gradients
from tread_bench.reports.figures.guidance import guidance
from tread_bench.reports.figures.picture import Picture
from tread_bench.reports.figures.placement import placement_map, route_placement
from tread_bench.reports.figures.rates import rates
from tread_bench.reports.figures.schedule import schedules
from tread_bench.reports.figures.selectors import selector_differences
from tread_bench.reports.figures.similarity import across_times, similarities
from tread_bench.reports.figures.speed import break_even, speedups, step_parts
from tread_bench.reports.figures.tuning import learning_rates
from tread_bench.reports.rows import requested
from tread_bench.reports.rows.row import Row

_Draw = Callable[[Sequence[Row], str], Picture | None]
_DrawOnBases = Callable[[Sequence[Row], Sequence[Basis], str], list[Picture]]
_FIRST: tuple[_Draw, ...] = (depths, guidance, selector_differences)
ON_BASES: tuple[_DrawOnBases, ...] = (routing_gain, methods, route_placement, placement_map)
_NEXT: tuple[_Draw, ...] = (rates, schedules, gap, learning_rates)
_PANEL_PER_ROW: tuple[_Draw, ...] = (similarities, across_times, gradients)


def pictures(rows: Sequence[Row], suffix: str = "", exports: bool = False) -> list[Picture]:
    """Return every picture that these rows allow; `suffix` keeps the names of several calls apart.

    Args:
        exports: whether each picture holds a PNG and a PDF beside the SVG.
    """
    with style.theme(exports):
        return list(_pictures(rows, suffix))


def _pictures(rows: Sequence[Row], suffix: str) -> Iterator[Picture]:
    if is_about_speed(rows):
        yield from _drawn((break_even, speedups, step_parts), rows, suffix)
        return
    costs = equal_costs(rows)
    yield from _drawn(_FIRST, rows, suffix)
    found = bases(rows, costs)
    for draw_on_bases in ON_BASES:
        yield from draw_on_bases(rows, found, suffix)
    yield from _drawn(_NEXT, rows, suffix)
    if picture := fid_against_cost(rows, costs, suffix):
        yield picture
    yield from _drawn((speedups, step_parts), rows, suffix)
    trained = [row for row in rows if not requested.is_evaluated_only(row.first)]
    for draw in _PANEL_PER_ROW:
        for members, part in _parts(draw, trained):
            if picture := draw(members, f"{suffix}{part and f'-{part}'}"):
                yield replace(picture, title=f"{picture.title}{part and f', {part}'}")


def _drawn(draws: Sequence[_Draw], rows: Sequence[Row], suffix: str) -> Iterator[Picture]:
    for draw in draws:
        if picture := draw(rows, suffix):
            yield picture


def _parts(draw: _Draw, rows: Sequence[Row]) -> list[tuple[list[Row], str]]:
    """All rows in one picture; times of two objectives are different quantities and get a picture each."""
    objectives = sorted({requested.objective(row.first) for row in rows})
    if draw is not across_times or len(objectives) < 2:
        return [([*rows], "")]
    return [([row for row in rows if requested.objective(row.first) == name], name) for name in objectives]
