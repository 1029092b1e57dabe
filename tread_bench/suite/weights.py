"""Cells that evaluate weights trained by other cells, or start from them: which ones, and of which iteration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import JsonValue

from tread_bench.core.config.suite import Cell
from tread_bench.core.config.training import Budget, Evaluate, KeptWeights, Start
from tread_bench.core.describe.families import BackboneSpec
from tread_bench.core.describe.guidance import iteration_at
from tread_bench.core.describe.plugins import named
from tread_bench.core.names import unknown
from tread_bench.core.problems import Loc, Problem, SuiteError, all_problems, at, dotted, refuse
from tread_bench.core.stored.documents import CellRequest
from tread_bench.core.stored.records import paired_seed
from tread_bench.suite.budgets import NAMED, NOTHING, STARTS, need
from tread_bench.suite.merge import DraftRow
from tread_bench.suite.tuning import at_rate

SAME = ("backbone", "data", "objective")  # must be equal: what the weights fit, and what they were trained for
TAKEN = ("method", "routes", "selector", "schedule", "auxiliary", "training", "seed_group")  # taken from the source


@dataclass(frozen=True, slots=True)
class Source:
    """A row that provides weights, with the cell that describes them.

    `run` is the folder of another run, and `cells` then holds its cells by the suite's seed; "" is this run.
    `written` is its cell as its suite writes it, for rows of this run.
    `history` is what determines the weights besides the cell, as JSON values: of a row of this run, all that its
    training starts from; of another run, the digest in the ids of its cells, which covers that.
    """

    row: str
    cell: Cell
    run: str = ""
    cells: Mapping[int, str] = field(default_factory=dict)
    written: Cell | None = None
    history: tuple[JsonValue, ...] = ()

    @property
    def determined_by(self) -> tuple[JsonValue, ...]:
        """All that determines the weights, as JSON values."""
        return (self.cell.model_dump(mode="json"), *self.history)

    def iteration(self, moment: float | None, name: str) -> int:
        """Return the iteration of a moment of the training. Raises ValueError if its weights are not kept."""
        training, last = self.cell.training, self.cell.training.iterations
        found = last if moment is None else iteration_at(moment, last)
        kept = sorted({*map(int, training.snapshots), last})
        if found not in kept:
            rule = f"row {self.row!r} keeps weights only of iteration {', '.join(map(str, kept))}"
            raise ValueError(f"{name} {moment:g}: {rule}; choose one of them or add {found} to its training.snapshots")
        return found


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights of a source at an iteration, which a cell reads."""

    source: Source
    iteration: int

    def at_rates(self, rates: Mapping[str, float]) -> Weights:
        """Return those of a row of this run at the learning rate that was chosen for it."""
        if self.source.run:
            return self
        cell = at_rate(self.source.cell, rates[self.source.row])
        return Weights(replace(self.source, cell=cell), self.iteration)


class Sources:
    """The resolved rows of a suite that train or are timed, and those of other runs that a cell names.

    Args:
        seeds: seeds of the suite; a row of another run must have them all.
        drafts: all rows of the suite.
    """

    def __init__(self, seeds: Sequence[int], drafts: Iterable[DraftRow]) -> None:
        self.seeds, self.rows, self._others = seeds, dict[str, Source](), dict[tuple[str, str], Source]()
        self.drafts = {draft.name: draft for draft in drafts}

    def find(self, row: str, by: DraftRow, run: str | None) -> Source:
        """Return the row that another one names; with a matrix, that of the same combination. Raises ValueError."""
        # A row of this run.
        if run is None:
            for name in by.meant(row):
                if name in self.rows and self.rows[name].cell.trains:
                    return self.rows[name]
            raise ValueError(unknown("trained row", row, [name for name, one in self.rows.items() if one.cell.trains]))

        # A row of another run, with a cell of every seed.
        if (run, row) not in self._others:
            trained: list[CellRequest] = named("tread_bench.runner.folder:trained_cells")(Path(run))
            found = {paired_seed(request): request for request in trained if request.row == row}
            if not found:
                raise ValueError(f"{run}: {unknown('trained row', row, {request.row for request in trained})}")
            if missing := [str(seed) for seed in self.seeds if seed not in found]:
                raise ValueError(f"{run}: row {row!r} has no cell of seed {', '.join(missing)}; set seeds")
            cells = {seed: request.cell for seed, request in found.items()}
            first = found[self.seeds[0]]
            history = (first.cell.rpartition("-")[2],)
            self._others[run, row] = Source(row, first.configuration, run, cells, history=history)
        return self._others[run, row]

    def of_budget(self, budget: Budget, by: DraftRow) -> Source:
        """Return the row that a row's budget names.

        Raises:
            SuiteError: it cannot be named, or has mistakes, which are reported with it.
        """

        def is_able(name: str) -> bool:
            return name in self.drafts and name != by.name and need(self.drafts[name]) in (NOTHING, need(by) & STARTS)

        for name in filter(is_able, by.meant(budget.macs_of)):
            if name not in self.rows:
                raise SuiteError([])
            return self.rows[name]
        able = filter(is_able, self.drafts)
        rule = "rows that train for iterations of their own, from the same start"
        raise SuiteError([Problem(f"{unknown('trained row', budget.macs_of, able)} ({rule})", NAMED)])


def adopted(cell: Cell, requested: Evaluate, row: DraftRow, sources: Sources) -> tuple[Cell, Weights]:
    """Return the cell with all that its source's training determines, and the weights that it evaluates.

    Raises:
        SuiteError: they do not exist, or the row contradicts what they were trained with.
    """
    weights = _requested(requested, ("evaluate",), row, sources)
    source, method = weights.source, weights.source.cell.method

    # What was trained for something else, and keys that would have no effect.
    problems = []
    for key in SAME:
        if getattr(cell, key) != getattr(source.cell, key):
            message = f"{key}: row {source.row!r}, which this one evaluates, was trained with another; set the same one"
            problems.append(Problem(message, row.draft.latest((key,), ("evaluate", "row"))))
    for key in TAKEN:
        if any(path[0] == key and spot[0] == "rows" for path, spot in row.draft.origins.items()):
            message = f"{key} has no effect: this row takes over what row {source.row!r} was trained with; remove it"
            problems.append(Problem(message, (key,), at_key=True))
    refuse(problems)

    # Options that would change more than the evaluation of what was trained, or have a value that does not fit.
    options, able = ("evaluate", "options"), method.family.evaluation_options
    for name in requested.options:
        if name not in able:
            which = f"only {', '.join(able)} changes" if able else "no option changes"
            message = f"evaluate.options.{name}: of method {method.name}, {which} the evaluation alone; leave it out"
            problems.append(Problem(message, (*options, name)))
    evaluated = {**method.model_dump(), **requested.options}
    refuse(problems or all_problems(evaluated, type(method), options))
    taken = {
        **{key: getattr(source.cell, key) for key in TAKEN},
        "method": method.model_validate(evaluated),
        "evaluate": requested.model_copy(update={"row": source.row, "iteration": weights.iteration}),
        "metrics": cell.metrics.model_copy(update={"at": (weights.iteration,), "ema": source.cell.metrics.ema}),
    }
    return cell.model_copy(update=taken), weights


def started(cell: Cell, requested: Start, spec: BackboneSpec, row: DraftRow, sources: Sources) -> tuple[Cell, Weights]:
    """Return the cell with nothing open of what it starts from, and the weights that it starts from.

    Raises:
        SuiteError: they do not exist, or do not fit the cell's network.
    """
    weights = _requested(requested, ("training", "start"), row, sources)
    source, named_row = weights.source, f"training.start.row {weights.source.row!r}"
    other = source.cell

    # Weights that do not fit, are more than a network's, or start from others themselves.
    with at("training", "start", "row"):
        if (other.backbone.family(), other.backbone.spec(other.data)) != (cell.backbone.family(), spec):
            rule = "its weights fit no other backbone, image size, channels or number of classes; set the same"
            raise ValueError(f"{named_row} has another network: {rule}")
        if other.objective != cell.objective:
            raise ValueError(f"{named_row} was trained for another objective; set the same")
        for name, one in ((source.row, other), ("this row", cell)):
            if not one.method.family.is_plain_backbone:
                rule = "only the weights of a plain backbone can be gone on with, by a method that adds none"
                more = f"method {one.method.name} of {name} is more than that"
                raise ValueError(f"{named_row}: {more}, and {rule}: choose another")
        if other.training.start is not None and not source.run:
            raise ValueError(f"{named_row} starts from other weights itself; name a row that trains from the beginning")
        if other.training.lora is not None:
            rule = "which fit no network without them; name the row that it starts from, or train all of its weights"
            raise ValueError(f"{named_row} keeps adapters alone (training.lora), {rule}")
    start = requested.model_copy(update={"row": source.row, "iteration": weights.iteration})
    training = cell.training.model_copy(update={"start": start})
    return cell.model_copy(update={"training": training}), weights


def _requested(requested: KeptWeights, key: Loc, row: DraftRow, sources: Sources) -> Weights:
    """The weights that a row requests at a key. Raises SuiteError."""
    with at(*key, "row"):
        source = sources.find(requested.row, row, requested.run)
    with at(*key, "iteration"):
        return Weights(source, source.iteration(requested.iteration, f"{dotted(key)}.iteration"))


def weak_weights(cell: Cell, evaluated: Weights | None, sources: Sources, by: DraftRow) -> Weights | None:
    """Return the weights of the weak branch, if guidance uses others than the evaluated ones. Raises ValueError."""
    rule = cell.sampling.guidance
    if not any(branch and branch.other_weights for branch in rule.branches):
        return None
    if evaluated is None or cell.evaluate is None:
        message = f"sampling.guidance {rule.name} reads other weights, which do not exist while a row trains: "
        raise ValueError(f"{message}put it in a separate row with evaluate: ROW")
    row = rule.weak_row
    return guiding(cell, evaluated, evaluated.source if row is None else sources.find(row, by, cell.evaluate.run))


def guiding(cell: Cell, evaluated: Weights, weak: Source) -> Weights:
    """Return the weights of `weak` that guide the evaluated ones, by the cell's rule. Raises ValueError."""
    iteration = weak.iteration(cell.sampling.guidance.weak_snapshot, "sampling.guidance.snapshot")
    if (weak.cell.data, weak.cell.objective) != (cell.data, cell.objective):
        raise ValueError(f"sampling.guidance.row {weak.row!r} was trained on other data or for another objective")
    if weak.row == evaluated.source.row and iteration >= evaluated.iteration:
        rule = f"must come before the evaluated iteration, {evaluated.iteration}"
        raise ValueError(f"sampling.guidance.snapshot {iteration}: {rule}")
    return Weights(weak, iteration)
