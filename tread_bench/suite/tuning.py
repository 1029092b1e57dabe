"""The trainings that choose a row's learning rate, and what a suite that chooses them may not give. No torch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tread_bench.core.config.suite import Cell
from tread_bench.core.config.tune import Tune
from tread_bench.core.problems import Loc, Problem
from tread_bench.suite.merge import Draft

_RATE: Loc = ("training", "learning_rate")


def at_rate(cell: Cell, rate: float) -> Cell:
    """Return the cell at another learning rate."""
    return cell.model_copy(update={"training": cell.training.model_copy(update={"learning_rate": rate})})


def tuning_cell(cell: Cell, rate: float, tune: Tune) -> Cell:
    """Return the training of a row's cell at a candidate: shorter, evaluated at its end alone, on the tuning seeds.

    Rows that differ in their seeds alone have the same one.
    """
    last = max(1, round(tune.share * cell.training.iterations))
    training = {"iterations": last, "learning_rate": rate, "snapshots": (), "budget": None}
    metrics = {"at": (last,), "generate": tune.generate and cell.metrics.generate, "routed_rates": ()}
    changes = {
        "training": cell.training.model_copy(update=training),
        "metrics": cell.metrics.model_copy(update=metrics),
        "seed_group": 0,
    }
    return cell.model_copy(update=changes)


def given_rates(draft: Draft) -> Iterator[Problem]:
    """The problem of a row that gives a learning rate itself, where the suite chooses it for every row."""
    if draft.origins.get(_RATE, ("base",))[0] in ("matrix", "rows"):
        rule = "tune chooses it for every row, among the same candidates; remove one of the two"
        yield Problem(f"training.learning_rate has no effect: {rule}", _RATE, at_key=True)


def shared_seeds(tune: Tune, seeds: Iterable[int]) -> Iterator[Problem]:
    """The problem of a study on tuning seeds, on which its learning rates were chosen."""
    shared = sorted(set(seeds) & set(tune.seed_numbers))
    if shared:
        rule = f"tune chooses learning rates on seeds {tune.seed_numbers[0]} and up; give the study other seeds"
        yield Problem(f"seed {shared[0]}: {rule}", ("seeds",))
