"""The trainings that choose a row's settings, and what a suite that chooses them may not give. No torch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tread_bench.core.config.suite import Cell
from tread_bench.core.config.tune import Tune
from tread_bench.core.names import unknown
from tread_bench.core.problems import Loc, Problem, shortened
from tread_bench.suite.merge import Draft

_OF_ITS_LENGTH = {"iterations", "budget", "decay", "snapshots", "checkpoint_every"}  # keys of a training
_RATE: Loc = ("training", "learning_rate")
_SCALE: Loc = ("sampling", "guidance_scale")


class Choice(NamedTuple):
    """What was chosen for a row; None: that stays as it is given."""

    learning_rate: float
    average_width: float | None = None
    guidance_scale: float | None = None


def at_choice(cell: Cell, choice: Choice) -> Cell:
    """Return the cell with what was chosen for its row."""
    changes: dict[str, Any] = {"training": cell.training.model_copy(update={"learning_rate": choice.learning_rate})}
    if choice.average_width is not None:
        changes["metrics"] = cell.metrics.model_copy(update={"average_width": choice.average_width})
    if choice.guidance_scale is not None:
        changes["sampling"] = cell.sampling.model_copy(update={"guidance_scale": choice.guidance_scale})
    return cell.model_copy(update=changes)


def tuning_cell(cell: Cell, rate: float, tune: Tune) -> Cell:
    """Return the training of a row's cell at a candidate: shorter, evaluated at its end alone, on the tuning seeds.

    Rows that differ in their seeds alone have the same one.
    """
    last = max(1, round(tune.share * cell.training.iterations))
    training = {"iterations": last, "learning_rate": rate, "snapshots": (), "budget": None}
    metrics = {
        "average_width": None if tune.widths else cell.metrics.average_width,
        "at": (last,),
        "generate": bool(tune.generate or tune.guidance_scales) and cell.metrics.generate,
        "routed_rates": (),
        "other_widths": tune.widths or (),
        "other_scales": tune.guidance_scales or (),
    }
    changes: dict[str, Any] = {
        "training": cell.training.model_copy(update=training),
        "metrics": cell.metrics.model_copy(update=metrics),
        "seed_group": 0,
    }
    if tune.guidance_scales:  # the same cell, whatever is chosen
        sampling = cell.sampling.model_copy(update={"guidance_scale": tune.guidance_scales[0]})
        changes["sampling"] = sampling
    return cell.model_copy(update=changes)


def tuning_problems(cell: Cell, draft: Draft, tune: Tune) -> Iterator[Problem]:
    """The problems of a row that gives itself what the suite chooses for every row, or has no averages to choose of."""
    if draft.origins.get(_RATE, ("base",))[0] in ("matrix", "rows"):
        rule = "tune chooses it for every row, among the same candidates; remove one of the two"
        yield Problem(f"training.learning_rate has no effect: {rule}", _RATE, at_key=True)
    if cell.training.start is not None and cell.trains:
        rule = "tune trains on seeds of its own, for which no other row trains weights; leave one of the two out"
        yield Problem(f"training.start {cell.training.start.row!r}: {rule}", ("training", "start"), at_key=True)
    if tune.guidance_scales:
        yield from _scale_problems(cell, draft, tune.guidance_scales)
    if not tune.widths:
        return
    for key, value in (("average_width", None), ("ema", True)):
        if getattr(cell.metrics, key) != value:
            rule = "tune.widths chooses an average for every row; remove one of the two"
            yield Problem(f"metrics.{key} has no effect: {rule}", ("metrics", key), at_key=True)
    if cell.training.averages is None and cell.trains:
        rule = "its averages are reconstructed from training.averages; add training.averages: {}"
        yield Problem(f"tune.widths {shortened(list(tune.widths))}: {rule}", ("training",), at_key=True)


def _scale_problems(cell: Cell, draft: Draft, scales: Sequence[float]) -> Iterator[Problem]:
    """The problems of a row that gives itself a scale that is chosen, or has no guidance or images to choose it by."""
    what = f"tune.guidance_scales {shortened(list(scales))}"
    if draft.origins.get(_SCALE, ("base",))[0] in ("matrix", "rows"):
        rule = "tune.guidance_scales chooses it for every row, among the same candidates; remove one of the two"
        yield Problem(f"sampling.guidance_scale has no effect: {rule}", _SCALE, at_key=True)
    weak = cell.sampling.guidance.branches[1]
    if weak is None:
        yield Problem(f"{what}: this row is not guided; add sampling.guidance, such as cfg", ("sampling",), at_key=True)
    elif weak.other_weights:
        rule = f"guidance {cell.sampling.guidance.name} reads other weights, which tuning seeds do not have; choose cfg"
        yield Problem(f"{what}: {rule}", ("sampling", "guidance"), at_key=True)
    if not cell.metrics.generate:
        rule = "it is chosen by FID, and metrics.generate is false; remove one of the two"
        yield Problem(f"{what}: {rule}", ("metrics", "generate"), at_key=True)


def shortest(cells: Mapping[str, Cell]) -> dict[str, str]:
    """Return the shortest of the rows that differ from a row in their length alone and decay at their end, of cells by
    row; of a row without any, the row itself.
    """
    alike: dict[str, list[str]] = {}
    for row, cell in cells.items():
        if cell.trains and 0 < cell.training.decay.span < 1:
            own: Any = {"metrics": True, "sampling": True, "training": _OF_ITS_LENGTH}
            alike.setdefault(cell.model_dump_json(exclude=own), []).append(row)
    found = {row: row for row in cells}
    for rows in alike.values():
        found |= dict.fromkeys(rows, min(rows, key=lambda row: cells[row].training.iterations))
    return found


def shared_seeds(tune: Tune, seeds: Iterable[int]) -> Iterator[Problem]:
    """The problem of a study on tuning seeds, on which its learning rates were chosen."""
    shared = sorted(set(seeds) & set(tune.seed_numbers))
    if shared:
        rule = f"tune chooses learning rates on seeds {tune.seed_numbers[0]} and up; give the study other seeds"
        yield Problem(f"seed {shared[0]}: {rule}", ("seeds",))


def check_problems(tune: Tune, rows: Mapping[str, Cell]) -> Iterator[Problem]:
    """The problems of rows to check that the suite does not train, or that are tuned at their own length already."""
    if not tune.shortest:
        return
    tuned_at = shortest(rows)
    if all(tuned_at[row] == row for row in rows):
        rule = "and have a decay that begins late, such as wsd; set it to false"
        yield Problem(f"tune.shortest has no effect: no rows differ in their length alone {rule}", ("tune", "shortest"))
        return
    for place, name in enumerate(tune.check):
        at = ("tune", "check", place)
        if name not in rows:
            yield Problem(unknown("trained row", name, [*rows]), at)
        elif tuned_at[name] == name:
            rule = "its learning rate is chosen at its own length, so there is nothing to check; name a longer row"
            yield Problem(f"tune.check {name!r}: {rule}", at)
