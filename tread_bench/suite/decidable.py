"""What keeps a suite from a decision on its routes (docs/methods/decision.md), known before it trains. No torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tread_bench.core.config.metrics import ENOUGH_POINTS
from tread_bench.core.config.training import BUDGET_TOLERANCE
from tread_bench.core.describe.methods import Tokens
from tread_bench.core.numbers.costs import training_macs
from tread_bench.core.problems import Problem
from tread_bench.suite.plan import Plan, PlannedCell

OBSTACLES = "as it is, this suite cannot make every test of a decision on routes (docs/methods/decision.md):"


def obstacles(plan: Plan) -> list[Problem]:
    """Return what keeps a suite from a decision in which every test is made, each with its key.

    Empty for a smoke run, and where the suite asks something else: by a hypothesis, which has a check of its own
    (`undecidable`), by rows that only evaluate, or by nothing but timed steps.
    """
    rows = [cells[0] for cells in plan.rows.values()]
    asks_other = plan.suite.hypothesis is not None or any(row.cell.evaluate for row in rows)
    trained = [row for row in rows if row.trains]
    if plan.is_smoke or asks_other or not trained:
        return []
    return [*_without_noise(plan, trained), *_without_comparison(plan, trained)]


def _without_noise(plan: Plan, rows: Sequence[PlannedCell]) -> Iterator[Problem]:
    """No seeds, FID or clock to test with."""
    if len(plan.suite.seeds) < 2:
        yield Problem("one seed has no interval, so nothing can be tested; give 2 or more, better 5", ("seeds",))
    if not any(row.cell.generates for row in rows):
        yield Problem("no row has an FID, by which routes are compared; set it to true", ("metrics", "generate"))
    if not plan.suite.timing.pairs:
        yield Problem("no step is timed, so nothing is tested at equal time; time 20", ("timing", "pairs"))


def _without_comparison(plan: Plan, rows: Sequence[PlannedCell]) -> Iterator[Problem]:
    """No route that is compared with dense at equal training MACs, or no control beside those that are."""
    # Routes, and what else the same MACs buy.
    routes = routes_of(rows)
    controls = [row for row in rows if row.cell.routes and row not in routes]
    controls += [row for row in rows if row.cell.is_plainly_dense and row.cell.training.budget]
    if not routes:
        yield Problem("no row has routes, so there is nothing to decide; add one of method tread", ("rows",))
        return

    # Those that are compared with another row at equal training MACs, and why others are not.
    compared: dict[str, set[str]] = {}
    problems: dict[str, Problem] = {}
    for row in (*routes, *controls):
        reference = _reference(row, plan)
        problem = _apart(row, reference) if reference else None
        if problem:
            problems[row.row] = problem
        elif reference:
            compared.setdefault(reference.row, set()).add(row.row)
    names = {row.row for row in routes}
    of_routes = [one for row, one in problems.items() if row in names]
    decided = {reference: beside for reference, beside in compared.items() if beside & names}
    if decided and all(beside <= names for beside in decided.values()):
        example = f"training: {{budget: {{macs_of: {min(decided)}}}}}"
        rule = f"no control costs as much as a route; add one, such as a network of fewer blocks with {example}"
        yield Problem(rule, ("rows",))
    elif not decided and of_routes:
        yield from {problem.loc: problem for problem in reversed(of_routes)}.values()  # the first of each key
    elif not decided:
        yield Problem("no row with routes has a dense row of the same settings beside it; add one", ("rows",))


def routes_of(rows: Sequence[PlannedCell]) -> list[PlannedCell]:
    """Return the rows that a decision chooses from. Where all routes skip layers as a whole, they are no controls."""
    routed = [row for row in rows if row.cell.routes]
    return [row for row in routed if row.cell.method.family.tokens is not Tokens.SKIP_AS_A_WHOLE] or routed


def _reference(row: PlannedCell, plan: Plan) -> PlannedCell | None:
    """The row that a row is compared with: the one that its budget names, or else the dense one beside it."""
    if row.cell.training.budget:
        return plan.rows[row.cell.training.budget.macs_of][0]
    by_id = {cells[0].id: cells[0] for cells in plan.rows.values()}
    reference = by_id.get(row.reference)
    return None if reference is row else reference


def _apart(row: PlannedCell, reference: PlannedCell) -> Problem | None:
    """Why a row and its reference have no FID at equal training MACs; None where they have."""
    # As trained: both are evaluated where they have cost the same.
    cells = (row.cell, reference.cell)
    points = [cell.metrics.iterations(cell.training.iterations) for cell in cells]
    macs = [training_macs(cell, at[-1]) for cell, at in zip(cells, points, strict=True)]
    has_budget = row.cell.training.budget is not None
    if has_budget and abs(macs[0] / macs[1] - 1) <= BUDGET_TOLERANCE:
        return None

    # Between the evaluations of the one that costs more.
    dearer = macs.index(max(macs))
    at = points[dearer]
    is_inside = at[0] <= at[-1] * min(macs) / max(macs)
    if len(at) >= ENOUGH_POINTS and is_inside and not cells[dearer].depends_on_length:
        return None
    if has_budget:
        end, last = reference.cell.training.iterations, points[1][-1]
        rule = f"row {reference.row!r} is trained for {end:,} iterations and last evaluated at {last:,}"
        return Problem(f"{rule}, so nothing is compared with it at equal training MACs; add {end}", ("metrics", "at"))
    rule = f"row {row.row!r} has none, and its FID at the training MACs of {reference.row!r} cannot be interpolated"
    way = f"give it {{macs_of: {reference.row}}}, or evaluate {ENOUGH_POINTS} times or more (metrics.at)"
    return Problem(f"{rule}; {way}", ("training", "budget"))
