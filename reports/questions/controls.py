"""What each control beside the routes rules out, in words: chance, a smaller network, fewer tokens, skipped layers."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean

from tread_bench.core.config.training import BUDGET_TOLERANCE
from tread_bench.core.describe.routes import parse_routes
from tread_bench.core.numbers.statistics import MeanInterval, paired_difference
from tread_bench.reports import requested
from tread_bench.reports.differences import MACS
from tread_bench.reports.row import Row
from tread_bench.reports.text.numbers import fid_difference, plural


def is_control(row: Row) -> bool:
    """Return whether it spends the MACs of its reference in another way than by routing."""
    is_other_training = requested.is_control(row.first) and bool(requested.macs_of(row.first))
    return is_other_training or requested.skips_layers(row.first)


def beside(control: Row, routes: Sequence[Row]) -> list[Row]:
    """Return the routes at the control's cost; beside skipped layers those of the same share, else all."""
    line = control.compared(MACS)
    found = []
    for route in routes:
        of_route = route.compared(MACS)
        if line is None or of_route is None or route is control or of_route.reference != line.reference:
            continue
        is_near = abs(of_route.cost / line.cost - 1) <= BUDGET_TOLERANCE
        is_alike = not requested.skips_layers(control.first) or abs(_share(route) - _share(control)) < 0.01
        if is_near and is_alike:
            found.append(route)
    return found


def _share(row: Row) -> float:
    """Expected share of tokens and blocks that are skipped."""
    skipped = sum(route.rate * (int(route.end) - int(route.start) + 1) for route in parse_routes(row.first.routes))
    return skipped / row.blocks if row.blocks else 0.0


def sentences(rows: Sequence[Row], route: Row, places: int) -> list[str]:
    """Return a sentence for each control of a group: by how much a route differs from it at equal training MACs.

    Args:
        rows: of the group.
        route: the one that is decided on. A control that does not stand beside it, such as layers skipped at another
            share, is compared with the best of the routes that it stands beside.
        places: decimals of an FID.
    """
    # The routes, first the one that is decided on, then those of lowest FID.
    said = []
    by_name = {row.name: row for row in rows}
    routes = [row for row in rows if row.spans and not is_control(row) and row.compared(MACS)]
    routes.sort(key=lambda row: (row is not route, mean(row.sides(MACS)[0][0].values())))

    # The reference with other seeds tells chance; any other control is compared with a route.
    for row in rows:
        line = row.compared(MACS)
        if line is None:
            continue
        if requested.is_control(row.first) and not requested.macs_of(row.first):
            difference: MeanInterval | None = line.estimate
            what = f"Chance: {row.short_label}, which is {row.reference_label} with other seeds, differs from it by"
        elif is_control(row) and (alike := beside(row, routes)):
            difference = paired_difference(alike[0].sides(MACS)[0][0], row.sides(MACS)[0][0])
            instead = _instead(row, by_name.get(row.reference_name))
            what = f"{alike[0].short_label} minus {instead} ({row.short_label}):"
        else:
            continue
        if difference is not None:
            said.append(f"{what} {fid_difference(difference, places)}, {plural(difference.n, 'paired seed')}.")
    return said


def _instead(control: Row, reference: Row | None) -> str:
    """What the control does in place of routing."""
    first = control.first
    if requested.skips_layers(first):
        return "skipping layers at the same share"
    if reference and control.blocks and control.blocks < reference.blocks:
        return f"a smaller network, {control.blocks} instead of {reference.blocks} blocks"
    tokens = [one.cost("dense_tokens") or 0 if one else 0 for one in (control, reference)]
    if tokens[0] < tokens[1]:
        return f"fewer tokens, {tokens[0]:.0f} instead of {tokens[1]:.0f}: a larger patch"
    if reference and first.backbone != reference.first.backbone:
        return f"another network, {first.backbone}"
    return f"training {control.reference_label} for {requested.iterations(first):,} iterations"
