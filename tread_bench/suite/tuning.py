"""The trainings that choose a row's settings, and what a suite that chooses them may not give. No torch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tread_bench.core.config.suite import Cell, Tune
from tread_bench.core.names import unknown
from tread_bench.core.problems import Loc, Problem
from tread_bench.suite.merge import Draft

_OF_ITS_LENGTH = {"iterations", "budget", "decay", "snapshots", "checkpoint_every"}  # keys of a training
_RATE: Loc = ("training", "learning_rate")


def at_rate(cell: Cell, learning_rate: float) -> Cell:
    """Return the cell with the learning rate that was chosen for its row."""
    return cell.model_copy(update={"training": cell.training.model_copy(update={"learning_rate": learning_rate})})


def tuning_cell(cell: Cell, rate: float, tune: Tune) -> Cell:
    """Return the training of a row's cell at a candidate: shorter, evaluated at its end alone, on the tuning seeds.

    Rows that differ in their seeds alone have the same one.
    """
    last = max(1, round(tune.share * cell.training.iterations))
    training = {"iterations": last, "learning_rate": rate, "snapshots": (), "budget": None}
    metrics = {"at": (last,), "generate": tune.generate and cell.metrics.generate, "routed_rates": ()}
    changes: dict[str, Any] = {
        "training": cell.training.model_copy(update=training),
        "metrics": cell.metrics.model_copy(update=metrics),
        "seed_group": 0,
    }
    return cell.model_copy(update=changes)


def tuning_problems(cell: Cell, draft: Draft) -> Iterator[Problem]:
    """The problems of a row that gives itself what the suite chooses for every row."""
    if draft.origins.get(_RATE, ("base",))[0] in ("matrix", "rows"):
        rule = "tune chooses it for every row, among the same candidates; remove one of the two"
        yield Problem(f"training.learning_rate has no effect: {rule}", _RATE, at_key=True)
    if cell.training.start is not None and cell.trains:
        rule = "tune trains on seeds of its own, for which no other row trains weights; leave one of the two out"
        yield Problem(f"training.start {cell.training.start.row!r}: {rule}", ("training", "start"), at_key=True)


def shortest(cells: Mapping[str, Cell]) -> dict[str, str]:
    """Return, of cells by row, the shortest of the rows that differ from a row in their length alone, for each row that
    decays at its end.
    """
    alike: dict[str, list[str]] = {}
    for row, cell in cells.items():
        if cell.trains and 0 < cell.training.decay.span < 1:
            own: Any = {"metrics": True, "sampling": True, "training": _OF_ITS_LENGTH}
            alike.setdefault(cell.model_dump_json(exclude=own), []).append(row)
    found: dict[str, str] = {}
    for rows in alike.values():
        found |= dict.fromkeys(rows, min(rows, key=lambda row: cells[row].training.iterations))
    return found


def unfit_to_tune(tune: Tune, cells: Mapping[str, Cell], seeds: Iterable[int]) -> Iterator[Problem]:
    """The problems of a suite that tunes nothing, on seeds of its study, or rows that need no check.

    Args:
        cells: those of all rows.
        seeds: of the study, in all groups.
    """
    trained = {row: cell for row, cell in cells.items() if cell.trains}
    if not trained:
        yield Problem("tune: no row of this suite trains, so there is no learning rate to choose; remove it", ("tune",))
    shared = sorted(set(seeds) & set(tune.seed_numbers))
    if shared:
        rule = f"tune chooses learning rates on seeds {tune.seed_numbers[0]} and up; give the study other seeds"
        yield Problem(f"seed {shared[0]}: {rule}", ("seeds",))
    if not tune.shortest or not trained:
        return
    if all(row == other for row, other in shortest(trained).items()):
        rule = "and have a decay that begins late, such as wsd; set it to false"
        yield Problem(f"tune.shortest has no effect: no rows differ in their length alone {rule}", ("tune", "shortest"))
    for place, name in enumerate(tune.check):
        if name not in trained:
            yield Problem(unknown("trained row", name, [*trained]), ("tune", "check", place))
