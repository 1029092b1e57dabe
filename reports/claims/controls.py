"""What each control beside the routes rules out, in words: chance, a smaller network, fewer tokens, skipped layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tread_bench.core.config.training import BUDGET_TOLERANCE
from tread_bench.core.describe.routes import parse_routes
from tread_bench.core.numbers.statistics import LEVEL
from tread_bench.reports.claims.equal_cost import AtEqualCost
from tread_bench.reports.rows import requested
from tread_bench.reports.rows.comparison import Tested, tested
from tread_bench.reports.rows.row import Row
from tread_bench.reports.text.sentences import say


class _Beside(NamedTuple):
    """A route, the control that it is compared with, and what the control simply does."""

    route: AtEqualCost
    control: AtEqualCost
    instead: str


def rules_out(at_cost: Sequence[AtEqualCost], routes: Sequence[AtEqualCost], places: int) -> tuple[str, ...]:
    """Return a sentence for each control of a group.

    A route is compared with a control at equal training MACs, by paired t-tests, Holm-adjusted over all routes and
    controls of the group: so the route of lowest FID, on which the sentence is, may be chosen by the same figures.

    Args:
        at_cost: all rows of the group that have a reference.
        routes: those of them that are ranked, the lowest FID at equal training MACs first.
        places: decimals of an FID.
    """
    chance = [_by_chance(one, places) for one in at_cost if one.at_macs and _repeats_reference(one)]
    found = []
    for control in at_cost:
        instead = instead_of_routing(control)
        for route in beside(control, routes) if instead and control.at_macs else ():
            found.append(_Beside(route, control, instead))

    # The sentence on the best route beside each control.
    tests = tested((one.route.fids_at_macs, one.control.fids_at_macs) for one in found)
    of_best: dict[int, tuple[_Beside, Tested]] = {}
    for one, test in zip(found, tests, strict=True):
        of_best.setdefault(id(one.control), (one, test))
    compared = [(one, test) for one, test in of_best.values() if test.difference]
    return (*chance, *(say("controls", "beside", one=one, test=test, places=places) for one, test in compared))


def _repeats_reference(one: AtEqualCost) -> bool:
    """Whether the row is its reference with other seeds."""
    first, reference = one.row.first, one.reference.first
    is_same = first.backbone == reference.backbone and not requested.macs_of(first)
    return requested.is_control(first) and is_same


def _by_chance(one: AtEqualCost, places: int) -> str:
    is_found = one.at_macs_p is not None and one.at_macs_p <= LEVEL
    return say("controls", "chance", one=one, is_false_alarm=is_found, places=places)


def instead_of_routing(control: AtEqualCost) -> str:
    """Return what the control does in place of routing; "" for a row that is none."""
    row, reference = control.row, control.reference
    if requested.skips_layers(row.first):
        return say("controls", "skipped")
    if not requested.is_control(row.first) or not requested.macs_of(row.first):
        return ""
    if row.blocks and row.blocks < reference.blocks:
        return say("controls", "smaller", blocks=row.blocks, of=reference.blocks)
    tokens = [one.cost("dense_tokens") or 0 for one in (row, reference)]
    if tokens[0] < tokens[1]:
        return say("controls", "fewer_tokens", tokens=tokens[0], of=tokens[1])
    if row.first.backbone != reference.first.backbone:
        return say("controls", "other_network", backbone=row.first.backbone)
    return say("controls", "longer", reference=reference.short_label, iterations=requested.iterations(row.first))


def beside(control: AtEqualCost, routes: Sequence[AtEqualCost]) -> list[AtEqualCost]:
    """Return the routes at the control's cost; beside skipped layers those of the same share, else all."""
    others = [one for one in routes if one is not control and one.reference is control.reference]
    others = [one for one in others if _is_near(one.macs, control.macs)]
    if not requested.skips_layers(control.row.first):
        return others
    return [one for one in others if abs(_share(one.row) - _share(control.row)) < 0.01]


def _is_near(macs: float | None, budget: float | None) -> bool:
    """Whether two costs are as near as a training's must be to its budget."""
    return bool(macs and budget and abs(macs / budget - 1) <= BUDGET_TOLERANCE)


def _share(row: Row) -> float:
    """Expected share of tokens and blocks that are skipped."""
    skipped = sum(route.rate * (int(route.end) - int(route.start) + 1) for route in parse_routes(row.first.routes))
    return skipped / row.blocks if row.blocks else 0.0
