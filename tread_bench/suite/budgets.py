"""Rows that train until they have cost what another row's training costs. No torch."""

from __future__ import annotations

from typing import Any

from tread_bench.core.config.suite import Cell
from tread_bench.core.config.training import BUDGET_TOLERANCE, Budget
from tread_bench.core.numbers.costs import iterations_within, training_macs
from tread_bench.core.problems import Loc, Problem, SuiteError, dotted, refuse, shortened
from tread_bench.suite.merge import Draft, DraftRow

SAME = ("data", "objective", "sampling", "metrics")
# Settings of metrics that do not affect the figures at equal cost: when they are taken, and what is measured apart.
_MEASURED_APART = {"at", "routed_rates", "routed_blocks", "similarity_samples", "similarity_times"}
_FOLLOW = {("training", "iterations"): "they follow from", ("metrics", "at"): "it follows from"}
NOTHING, HAS_BUDGET, STARTS, EVALUATES = 0, 1, 2, 4  # what a row needs of others; it may start and have a budget
NAMED: Loc = ("training", "budget", "macs_of")


def gives(values: dict[str, Any], key: str) -> bool:
    """Return whether the training in a row's merged values, valid or not, has a key."""
    training = values.get("training")
    return isinstance(training, dict) and training.get(key) is not None


def need(row: DraftRow) -> int:
    """Return what a row needs of others. Sorted by it, each row comes after those that it names."""
    values = row.draft.values
    if values.get("evaluate") is not None:
        return EVALUATES
    return STARTS * gives(values, "start") + HAS_BUDGET * gives(values, "budget")


def to_budget(cell: Cell, draft: Draft, name: str, written: Cell, other: Cell) -> Cell:
    """Return the cell, as written, with the length at which it costs what the row `name` does, which is `other`.

    Raises:
        SuiteError: it gives its length as well, is not comparable with that row, or no length is near enough.
    """
    # What follows from its budget, and which it gives itself; what it shares with others has no effect.
    problems = []
    for path, rule in _FOLLOW.items():
        if draft.origins.get(path, ("base",))[0] == "rows":
            message = f"{dotted(path)} has no effect: {rule} training.budget; remove one of the two"
            problems.append(Problem(message, path, at_key=True))

    # What must be equal, so that only the cost of training is compared.
    for part in SAME:
        mine, theirs = (getattr(one, part).model_dump(mode="json", exclude=_MEASURED_APART) for one in (cell, written))
        differing = sorted(key for key in mine.keys() | theirs.keys() if mine.get(key) != theirs.get(key))
        for key in ["name"] if "name" in differing else differing:
            loc = (part, key)
            stated = f"{dotted(loc)} {shortened(mine.get(key))}"
            message = f"{stated}: row {name!r}, which the budget names, has {shortened(theirs.get(key))}; set the same"
            problems.append(Problem(message, draft.latest(loc, NAMED)))
    refuse(problems)

    cell, ratio = fitted(cell, name, written, other)
    if abs(ratio - 1) > BUDGET_TOLERANCE:
        own = f"{cell.training.iterations} iterations, the nearest number, cost {ratio:.3g} x"
        named = f"what the {other.training.iterations} of row {name!r} cost"
        rule = f"the two may differ by {BUDGET_TOLERANCE:.0%}; train row {name!r} for more iterations"
        raise SuiteError([Problem(f"training.budget: {own} {named}, and {rule}", NAMED)])
    return cell


def fitted(cell: Cell, name: str, written: Cell, other: Cell) -> tuple[Cell, float]:
    """Return the cell with the iterations whose total training MACs come nearest to those of the row `name`, which is
    `other`, resolved from what is `written`, and the ratio of the two totals.

    It is evaluated at the iterations of that row that it reaches, at the same shares of its own training, and at its
    end. Where that row is only timed, so is this one.
    """
    last, ratio, at = 0, 1.0, None
    if other.trains:
        last, macs = iterations_within(training_macs(other), cell)
        ratio = macs / training_macs(other)
        as_written = written.metrics if written.metrics.at else other.metrics
        reached = {iteration for iteration in as_written.iterations(last) if iteration < last}
        at = tuple(sorted({*reached, last}))
    training = cell.training.model_copy(update={"iterations": last, "budget": Budget(macs_of=name)})
    metrics = cell.metrics.model_copy(update={"at": at})
    return cell.model_copy(update={"training": training, "metrics": metrics}), ratio
