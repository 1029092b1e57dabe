"""What keeps a suite from a decision on its routes (docs/methods/decision.md), known before it trains. No torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tread_bench.core.config.metrics import ENOUGH_POINTS
from tread_bench.core.describe.methods import Tokens
from tread_bench.core.numbers.costs import training_macs
from tread_bench.core.problems import Loc, Problem
from tread_bench.suite.plan import Plan, PlannedCell

OBSTACLES = "as it is, this suite cannot make every test of a decision on routes (docs/methods/decision.md):"


def obstacles(plan: Plan) -> list[Problem]:
    """Return what keeps a suite from a decision in which every test is made, each with its key.

    Empty for a smoke run, and where the suite asks something else: by a hypothesis, which has a check of its own
    (`undecidable`), by rows that only evaluate, or by nothing but timed steps.
    """
    rows = [cells[0] for cells in plan.rows.values()]
    asks_other = plan.suite.hypothesis is not None or any(row.cell.evaluate for row in rows)
    trained = [row for row in rows if row.cell.trains]
    if plan.is_smoke or asks_other or not trained:
        return []
    return [*_obstacles(plan, trained)]


def _obstacles(plan: Plan, rows: Sequence[PlannedCell]) -> Iterator[Problem]:
    """What the trained rows lack for a decision: a test, a route beside dense at equal training MACs, a control."""
    # Seeds, FID and clock to test with.
    if len(plan.suite.seeds) < 2:
        yield Problem("one seed has no interval, so nothing can be tested; give 2 or more, better 5", ("seeds",))
    if not any(row.cell.generates for row in rows):
        yield Problem("no row has an FID, by which routes are compared; set it to true", ("metrics", "generate"))
    if not plan.suite.timing.pairs:
        yield Problem("no step is timed, so nothing is tested at equal time; time 20", ("timing", "pairs"))

    # Routes, and what else the same MACs buy.
    routes = routes_of(rows)
    controls = [row for row in rows if row.cell.routes and row not in routes]
    controls += [row for row in rows if row.cell.is_plainly_dense and row.cell.training.budget]
    if not routes:
        yield Problem("no row has routes, so there is nothing to decide; add one of method tread", ("rows",))
        return

    # Each beside the row that its budget names, or the dense one: with an FID at the end of equal budgets, or between
    # evaluations.
    by_id = {cells[0].id: cells[0] for cells in plan.rows.values()}
    decided, controlled = set[str](), set[str]()  # rows that routes, and controls, are compared with
    problems: dict[Loc, Problem] = {}  # of routes, the first of each key
    for row in (*routes, *controls):
        budget = row.cell.training.budget
        reference = plan.rows[budget.macs_of][0] if budget else by_id.get(row.reference, row)
        if reference is row:
            continue
        cells = (row.cell, reference.cell)
        points = [cell.metrics.iterations(cell.training.iterations) for cell in cells]
        end, last = reference.cell.training.iterations, points[1][-1]
        has_curves = min(map(len, points)) >= ENOUGH_POINTS and not any(cell.depends_on_length for cell in cells)
        firsts, lasts = ([training_macs(cell, at[k]) for cell, at in zip(cells, points, strict=True)] for k in (0, -1))
        if (has_curves and max(firsts) <= min(lasts)) or (budget and last == end):
            (decided if row in routes else controlled).add(reference.row)
            continue
        loc, rule = ("metrics", "at"), f"row {reference.row!r} is trained for {end:,} iterations and last evaluated at"
        message = f"{rule} {last:,}, so nothing is compared with it at equal training MACs; add {end}"
        if not budget:
            loc = ("training", "budget")
            rule = f"its FID at the training MACs of {reference.row!r} cannot be interpolated"
            way = f"give it {{macs_of: {reference.row}}}, or evaluate {ENOUGH_POINTS} times or more"
            message = f"row {row.row!r} has none, and {rule}; {way}, from early on (metrics.at)"
        if row in routes:
            problems.setdefault(loc, Problem(message, loc))

    # A control beside a route.
    if decided and not decided & controlled:
        example = f"training: {{budget: {{macs_of: {min(decided)}}}}}"
        rule = f"no control costs as much as a route; add one, such as a network of fewer blocks with {example}"
        yield Problem(rule, ("rows",))
    elif not decided:
        nothing = Problem("no row with routes has a dense row of the same settings beside it; add one", ("rows",))
        yield from problems.values() or (nothing,)


def routes_of(rows: Sequence[PlannedCell]) -> list[PlannedCell]:
    """Return the rows that a decision chooses from. Where all routes skip layers as a whole, they are no controls."""
    routed = [row for row in rows if row.cell.routes]
    return [row for row in routed if row.cell.method.family.tokens is not Tokens.SKIP_AS_A_WHOLE] or routed
