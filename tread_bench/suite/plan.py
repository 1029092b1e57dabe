"""From a suite to its cells: validated against their backbones, resolved and named. No torch, no training."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from tread_bench.core.config.base import SEEDS_PER_GROUP
from tread_bench.core.config.suite import Cell, Suite, Tune
from tread_bench.core.config.training import Evaluate, RoutingSchedule
from tread_bench.core.describe.families import BackboneSpec, Family
from tread_bench.core.describe.routes import ResolvedRoute, format_routes, resolve_routes
from tread_bench.core.names import unknown
from tread_bench.core.numbers.cell_costs import training_macs
from tread_bench.core.problems import Loc, Place, Problem, SuiteError
from tread_bench.core.stored.documents import Reads, WeightsRef
from tread_bench.core.stored.identity import Identity, canonical_json, cell_id
from tread_bench.core.stored.records import CostFigures, Role
from tread_bench.suite.budgets import Budgets, need
from tread_bench.suite.files import Files
from tread_bench.suite.hypothesis import undecidable
from tread_bench.suite.merge import draft_rows
from tread_bench.suite.resolve import Resolved, Resolver
from tread_bench.suite.smoke import smoke_timing
from tread_bench.suite.tuning import check_problems, shared_seeds, shortest, tuning_cell
from tread_bench.suite.weights import Source, Weights

CHECKPOINTS_KEPT = 2
ROUTING_KEYS = ("method", "routes", "selector", "schedule", "auxiliary")  # how tokens are routed in training
SAMPLES_KEPT = 40  # images in the grid that each evaluation saves
_OTHER_BYTES = 2**20  # per cell: record, log, names inside its checkpoints, its share of the page
ENOUGH_PROBLEMS = 1_000  # after this many, further rows are not checked


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCell:
    """One training in a plan, one measurement of speed, or one evaluation of weights that another cell trains.

    `routes` are in block numbers. `reference` is the id of the plainly dense cell of the same seed that differs only in
    `ROUTING_KEYS` and, with a budget, in its length ("" if the suite has none; such a cell is its own reference); for a
    cell that evaluates, it is the cell that evaluates the same weights without guidance. Where there is no such cell
    of its seed group, and for a plainly dense cell, it is the one of the lowest group, with the same seed of the suite.
    Cells with the same `architecture_key` and seed start from the same weights; cells with the same `row_key` differ
    only in their seed.
    `tunes` is the row whose learning rate a tuning cell helps to choose, "" for a cell of the study.
    `sources` states whose weights a cell reads: "network" the weights it evaluates, "weak" those of guidance's weak
    branch, "start" those that its training starts from, each as `cell`, `iteration` and the `run` folder ("": this
    run). Source cells of this run must be trained first.
    """

    id: str
    row: str
    seed: int
    cell: Cell
    family: Family
    spec: BackboneSpec
    routes: tuple[ResolvedRoute, ...]
    reference: str
    architecture_key: str
    row_key: str
    sources: Mapping[Reads, WeightsRef] = field(default_factory=dict)
    tunes: str = ""

    @property
    def role(self) -> Role:
        """Whether it is of the study, or helps to choose a learning rate."""
        return "tuning" if self.tunes else "study"

    @property
    def identity(self) -> Identity:
        """The identity that is stamped on its files."""
        return Identity.of(self.id, self.cell.model_dump(mode="json"))

    @property
    def paired_seed(self) -> int:
        """The suite's seed that it has, whatever its seed group."""
        return self.seed - SEEDS_PER_GROUP * self.cell.seed_group

    @property
    def is_timed(self) -> bool:
        """Whether speed and memory of the cell's training step are measured."""
        return self.cell.evaluate is None and not self.tunes

    @property
    def trains(self) -> bool:
        """Whether the cell trains, and so keeps weights."""
        return self.cell.trains


@dataclass(frozen=True)
class Plan:
    """A suite and its cells: rows in the suite's order, with the seeds of a row next to each other.

    `is_smoke`: shortened to show that everything works, so that its figures are meaningless. `missing`: files, feature
    networks and runs that its cells need and that are not there, with their locations in the suite. `stand_ins`: what
    is random in a smoke run, in place of missing files.

    Of a suite that chooses learning rates, `tuning` has the tuning cells of each row that trains, by learning rate;
    rows that differ in their seeds alone share them, and with `tune.shortest` those that differ in their length alone.
    `checks` has those at the own length of some rows, which choose nothing. Then `cells` are those whose learning rate
    is known, and `pending` is the number of the others; before any is known, they are those at the suite's own
    learning rate.
    """

    suite: Suite
    cells: tuple[PlannedCell, ...]
    is_smoke: bool = False
    missing: tuple[Problem, ...] = ()
    stand_ins: tuple[str, ...] = ()
    tuning: Mapping[str, Candidates] = field(default_factory=dict)
    checks: Mapping[str, Candidates] = field(default_factory=dict)
    pending: int = 0
    expanded: tuple[_Row, ...] = field(default=(), repr=False, compare=False)  # all rows, at the suite's learning rates

    @cached_property
    def rows(self) -> dict[str, list[PlannedCell]]:
        """The cells of each row, by row name."""
        rows: dict[str, list[PlannedCell]] = {}
        for cell in self.cells:
            rows.setdefault(cell.row, []).append(cell)
        return rows

    @cached_property
    def all_cells(self) -> tuple[PlannedCell, ...]:
        """The tuning cells, each once, and those of the study."""
        return (*self.tuning_cells(self.tuning), *self.cells)

    @property
    def planned(self) -> int:
        """How many cells the run has in all."""
        return len(self.all_cells) + self.pending

    def timed_with(self, cell: PlannedCell) -> PlannedCell | None:
        """Return the dense cell of another network whose steps a cell's are timed in turn with: that of its budget.

        None: its own network without routes. That is so as well where a step of the two is not the same work (another
        batch) or where the cell has steps of two kinds.
        """
        training = cell.cell.training
        if training.budget is None or training.budget.macs_of not in self.rows:
            return None
        reference = self.rows[training.budget.macs_of][0]
        is_other = reference.architecture_key != cell.architecture_key and reference.cell.is_plainly_dense
        is_alike = reference.cell.training.batch == training.batch and cell.cell.schedule == RoutingSchedule()
        return reference if is_other and is_alike else None

    def tuning_cells(self, rows: Iterable[str]) -> list[PlannedCell]:
        """Return the tuning cells of some rows, each once."""
        found = {}
        for row in rows:
            for cells in (*self.tuning[row].values(), *self.checks.get(row, {}).values()):
                found.update({cell.id: cell for cell in cells})
        return [*found.values()]

    def tuned_at(self, row: str) -> str:
        """Return the shorter row at whose length a row is tuned; "" for its own."""
        cells = [cell for candidates in self.tuning[row].values() for cell in candidates]
        return cells[0].tunes if self.suite.tune and self.suite.tune.shortest and cells[0].tunes != row else ""

    def tuned_with(self, cells: Iterable[PlannedCell]) -> list[str]:
        """Return the rows whose learning rates must be chosen for some cells: theirs, and those of the rows that they
        are compared with.
        """
        by_id = {cell.id: cell.row for cell in self.cells}
        wanted = set()
        for cell in cells:
            budget = cell.cell.training.budget
            wanted |= {cell.row, by_id.get(cell.reference, ""), budget.macs_of if budget else ""}
        return [row for row in self.tuning if row in wanted]

    def with_choices(self, choices: Mapping[str, float]) -> Plan:
        """Return the plan with the learning rates that were chosen so far filled in; what needs more is pending."""
        known = []
        for row in self.expanded:
            needed = row.read_here | ({row.name} if row.resolved.cell.trains else set())
            if needed <= choices.keys():
                resolved = row.resolved.at_rates(row.name, choices)
                known.append(_Row.of(row.name, row.loc, resolved, self.suite))
        pending = (len(self.expanded) - len(known)) * len(self.suite.seeds)
        return replace(self, cells=_cells(known, self.suite), pending=pending)

    def chosen(self, names: Sequence[str]) -> list[PlannedCell]:
        """Return the cells of some rows, and of rows whose weights they read; all of them if no row is named.

        Args:
            names: rows, or rows of the suite whose matrix makes several of them, each text with one or, separated by
                commas, more.

        Raises:
            SuiteError: rows that the plan does not have, all of them.
        """
        # Which rows these names are of.
        separate = [part.strip() for name in names for part in ([name] if name in self.rows else name.split(","))]
        found = {name: [row for row in self.rows if f"{row} ".startswith(f"{name} ")] for name in separate}
        absent = [name for name, rows in found.items() if not rows]
        if absent:
            raise SuiteError([Problem(unknown("row", name, self.rows), place=Place("--rows")) for name in absent])

        # With the cells that they read, and those that these read.
        by_id = {cell.id: cell for cell in self.cells}
        wanted = {row for rows in found.values() for row in rows} if names else set(self.rows)
        chosen = {cell.id for cell in self.cells if cell.row in wanted}
        unread = [*chosen]
        while unread:
            read = {source.cell for source in by_id[unread.pop()].sources.values() if not source.run}
            unread += read - chosen
            chosen |= read
        return [cell for cell in self.cells if cell.id in chosen]


def digest(text: str) -> str:
    """Return the first ten hexadecimal digits of the text's SHA-256."""
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def expand(suite: Suite, files: Files | None = None, *, is_smoke: bool = False) -> Plan:
    """Expand a suite to its cells, each validated against its backbone.

    Args:
        files: what is done about the files that it names; None: they must exist.
        is_smoke: shortened to one seed, a few iterations and samples, so that budgets need not be met.

    Raises:
        SuiteError: all mistakes of all cells, each once, with their location in the suite.
    """
    # Resolve the rows, each after those that it names, and collect every mistake.
    if is_smoke:
        suite = suite.model_copy(update={"timing": smoke_timing(suite.timing), "seeds": suite.seeds[:1]})
    problems: list[Problem] = []
    drafts = list(draft_rows(suite, problems))
    files = files or Files()
    tune = suite.tune
    resolver = Resolver(files, suite.seeds, Budgets.of(drafts, is_smoke), tune is not None)
    rows: dict[int, _Row] = {}
    for place, draft in sorted(enumerate(drafts), key=lambda entry: need(entry[1])):
        try:
            rows[place] = _Row.of(draft.name, draft.loc, resolver.resolve(draft), suite)
        except SuiteError as error:
            problems += error.problems
            if len(problems) > ENOUGH_PROBLEMS:
                break

    # In the suite's order, make the cells of every seed, with their references and sources.
    ordered = [rows[place] for place in sorted(rows)]
    problems += [*_repeated(ordered, is_smoke), *_not_measured(ordered, suite)]
    if tune is not None:
        problems += [*_nothing_to_tune(ordered, problems), *shared_seeds(tune, _seeds(ordered, suite))]
        trained = {row.name: row.resolved.cell for row in ordered if row.resolved.cell.trains}
        problems += [] if problems or is_smoke else check_problems(tune, trained)
    if suite.hypothesis is not None and not problems and not is_smoke:
        problems += undecidable(suite.hypothesis, [(row.name, row.resolved.cell) for row in ordered])
    if problems or (files.missing and not files.allows_missing):
        raise SuiteError([*problems, *files.missing])
    tuning, checks = _tuning(ordered, tune, suite) if tune is not None else ({}, {})
    missing = tuple(dict.fromkeys(files.missing))
    cells = _cells(ordered, suite)
    return Plan(suite, cells, is_smoke, missing, tuning=tuning, checks=checks, expanded=tuple(ordered))


def _key(cell: Cell, suite: Suite, *read: object) -> str:
    """Digest of a resolved cell, of the numerical choices, and of what determines the weights that it reads."""
    return digest(canonical_json([cell.model_dump(mode="json"), suite.compute.model_dump(mode="json"), *read]))


def _cells(rows: Sequence[_Row], suite: Suite) -> tuple[PlannedCell, ...]:
    """The cells of every seed, with their references and sources."""
    related = _Related.of(rows)
    cells: list[PlannedCell] = []
    for row in rows:
        cells += row.planned(suite.seeds, related)
    return tuple(cells)


@dataclass(frozen=True)
class _Row:
    """The cells of one row, before they differ by seed."""

    name: str
    loc: Loc
    resolved: Resolved
    key: str
    architecture_key: str
    comparison_key: tuple[str, str]  # everything except `ROUTING_KEYS`, the seed group, and the length under a budget

    @classmethod
    def of(cls, name: str, loc: Loc, resolved: Resolved, suite: Suite) -> _Row:
        evaluated = resolved.evaluated_weights
        read = [*evaluated.source.history] if evaluated else []  # the cell itself has what its training was
        for weights in filter(None, (resolved.weak, resolved.start)):
            read += weights.source.determined_by
        key = _key(resolved.cell, suite, *read)
        architecture = digest(f"{resolved.family.name} {resolved.spec.model_dump_json()}")
        apart = dict.fromkeys(("backbone", "seed_group", *ROUTING_KEYS), True)
        chosen = {"learning_rate"} if suite.tune else set()
        own: Any = {"training": {"snapshots", *chosen}, **apart}
        shared = _at_length_of_budget(resolved).model_dump_json(exclude=own)
        return cls(name, loc, resolved, key, architecture, (architecture, shared))

    def seed(self, seed: int) -> int:
        """Return the seed of its cell that has this seed of the suite."""
        return seed + SEEDS_PER_GROUP * self.resolved.cell.seed_group

    def id(self, seed: int) -> str:
        """Return the id of its cell that has this seed of the suite."""
        return cell_id(self.name, self.seed(seed), self.key)

    @property
    def is_plainly_evaluated(self) -> bool:
        """Whether it is evaluated without guidance, and as its method is by itself."""
        cell = self.resolved.cell
        return cell.sampling.guidance.branches[1] is None and not (cell.evaluate and cell.evaluate.options)

    @property
    def unguided_key(self) -> str:
        """Key of the weights and of their evaluation, without guidance and as their method is evaluated by itself."""
        cell = self.resolved.cell
        evaluated = cell.evaluate or Evaluate(row=self.name, iteration=cell.training.iterations or None)
        aside = {"sampling": {"guidance", "guidance_scale"}, "metrics": {"at"}}
        weights = evaluated.model_dump_json(exclude={"options"})
        return f"{weights} {cell.model_dump_json(include={'sampling', 'metrics'}, exclude=aside)}"

    @property
    def read_here(self) -> set[str]:
        """The rows of this suite whose weights it reads."""
        read = (self.resolved.evaluated_weights, self.resolved.weak, self.resolved.start)
        return {weights.source.row for weights in read if weights is not None and not weights.source.run}

    def tuning(self, cell: Cell, key: str, tune: Tune) -> Iterator[PlannedCell]:
        """Yield its cells at a candidate, one per tuning seed; `cell` and `key` are those of the candidate."""
        name = f"{self.name} lr={cell.training.learning_rate:g}"
        for seed in tune.seed_numbers:
            yield PlannedCell(
                id=cell_id(name, seed, key),
                row=name,
                seed=seed,
                cell=cell,
                family=self.resolved.family,
                spec=self.resolved.spec,
                routes=resolve_routes(cell.routes, self.resolved.family.num_blocks(self.resolved.spec)),
                reference="",
                architecture_key=self.architecture_key,
                row_key=key,
                tunes=self.name,
            )

    def planned(self, seeds: Iterable[int], related: _Related) -> Iterator[PlannedCell]:
        reference = related.reference(self)
        cell, family, spec = self.resolved[:3]
        routes = resolve_routes(cell.routes, family.num_blocks(spec))
        for seed in seeds:
            yield PlannedCell(
                id=self.id(seed),
                row=self.name,
                seed=self.seed(seed),
                cell=cell,
                family=family,
                spec=spec,
                routes=routes,
                reference=reference.id(seed) if reference else "",
                architecture_key=self.architecture_key,
                row_key=self.key,
                sources=related.sources(self, seed),
            )


def _at_length_of_budget(resolved: Resolved) -> Cell:
    """The cell; where it has a budget, with the length of the row that its budget names, without the budget."""
    cell, other = resolved.cell, resolved.reference
    if other is None:
        return cell
    training = cell.training.model_copy(update={"iterations": other.training.iterations, "budget": None})
    metrics = cell.metrics.model_copy(update={"at": other.metrics.at})
    return cell.model_copy(update={"training": training, "metrics": metrics})


@dataclass(frozen=True)
class _Related:
    """Relations between rows."""

    dense: Mapping[tuple[str, str], Mapping[int, _Row]]  # by comparison key and seed group
    unguided: Mapping[str, _Row]  # by unguided key
    by_name: Mapping[str, _Row]

    @classmethod
    def of(cls, rows: Sequence[_Row]) -> _Related:
        trained = [row for row in reversed(rows) if row.resolved.cell.evaluate is None]
        judging = [row for row in reversed(rows) if row.resolved.cell.evaluate is not None]
        plain = [row for row in (*trained, *judging) if row.is_plainly_evaluated]
        dense: dict[tuple[str, str], dict[int, _Row]] = {}
        for row in trained:
            if row.resolved.cell.is_plainly_dense:
                dense.setdefault(row.comparison_key, {})[row.resolved.cell.seed_group] = row
        return cls(
            dense,
            {row.unguided_key: row for row in plain},
            {row.name: row for row in rows},
        )

    def reference(self, row: _Row) -> _Row | None:
        """Return the row that `row` is compared with."""
        if row.resolved.cell.evaluate is None:
            groups = self.dense.get(row.comparison_key, {})
            lowest = groups[min(groups)] if groups else None
            return lowest if row.resolved.cell.is_plainly_dense else groups.get(row.resolved.cell.seed_group, lowest)
        return self.unguided.get(row.unguided_key)

    def sources(self, row: _Row, seed: int) -> dict[Reads, WeightsRef]:
        """Return the weights that the row's cell of that seed of the suite reads."""
        resolved = row.resolved
        read: dict[Reads, Weights | None]
        read = {"network": resolved.evaluated_weights, "weak": resolved.weak, "start": resolved.start}
        found: dict[Reads, WeightsRef] = {}
        for name, weights in read.items():
            if weights is not None:
                cell = self._cell(weights.source, seed)
                found[name] = WeightsRef(cell=cell, iteration=weights.iteration, run=weights.source.run)
        return found

    def _cell(self, source: Source, seed: int) -> str:
        return source.cells[seed] if source.run else self.by_name[source.row].id(seed)


Candidates = Mapping[float, tuple[PlannedCell, ...]]  # the tuning cells of a row, by learning rate


def _tuning(rows: Sequence[_Row], tune: Tune, suite: Suite) -> tuple[dict[str, Candidates], dict[str, Candidates]]:
    """The tuning cells of each row that trains, and those that check its choice at its own length."""
    by_name = {row.name: row for row in rows if row.resolved.cell.trains}
    made: dict[str, tuple[PlannedCell, ...]] = {}

    def candidates(row: _Row) -> Candidates:
        found = {}
        for rate in tune.rates(row.resolved.cell.training.learning_rate):
            cell = tuning_cell(row.resolved.cell, rate, tune)
            key = _key(cell, suite)
            if key not in made:
                made[key] = tuple(row.tuning(cell, key, tune))
            found[rate] = made[key]
        return found

    cells = {name: row.resolved.cell for name, row in by_name.items()}
    tuned = shortest(cells) if tune.shortest else {name: name for name in cells}
    tuning = {row: candidates(by_name[tuned[row]]) for row in by_name}
    return tuning, {row: candidates(by_name[row]) for row in by_name if row in tune.check}


def _seeds(rows: Iterable[_Row], suite: Suite) -> Iterator[int]:
    """Every seed of the study, in all groups."""
    for row in rows:
        yield from map(row.seed, suite.seeds)


def _nothing_to_tune(rows: Iterable[_Row], problems: Sequence[Problem]) -> Iterator[Problem]:
    """The problem of learning rates that no training has; unless rows are missing because of other problems."""
    if not problems and not any(row.resolved.cell.trains for row in rows):
        yield Problem("tune: no row of this suite trains, so there is no learning rate to choose; remove it", ("tune",))


def _repeated(rows: Iterable[_Row], is_smoke: bool) -> Iterator[Problem]:
    """Problems of rows that would train the same cells again, or that share a name.

    Rows of a smoke run may have the same cells: in the suite they differ in length.
    """
    by_key: dict[str, _Row] = {}
    names: set[str] = set()
    for row in rows:
        first = by_key.setdefault(row.key, row)
        if first is not row and not is_smoke:
            message = f"row {row.name!r} has the same cells as row {first.name!r}: change one of them or remove it"
            yield Problem(message, row.loc, at_key=True)
        elif row.name in names:
            yield Problem(f"two rows are called {row.name!r}: rename one", row.loc, at_key=True)
        names.add(row.name)


def _not_measured(rows: Iterable[_Row], suite: Suite) -> Iterator[Problem]:
    """The problem of rows that are only timed, where nothing is timed."""
    untrained = [row.name for row in rows if row.resolved.cell.is_timed_only]
    if untrained and not suite.timing.pairs:
        rule = f"row {untrained[0]!r} is only timed (training.iterations 0), so nothing of it would be measured"
        yield Problem(f"timing.pairs 0: {rule}; time 2 pairs or more, or train it", ("timing", "pairs"))


def plan_table(plan: Plan, cell_cost: Callable[[Cell], CostFigures]) -> list[dict[str, Any]]:
    """Compute the costs of each row of a plan, without training: one JSON-able mapping per row.

    MACs are per image, but for `training_macs`, those of a cell's whole training. `train_step_macs` counts forward and
    backward under the routes, and `mean_train_step_macs` averages it over the schedule. `budget` is null,
    or says which row's `training_macs` this one trains to, and the actual ratio. `ideal_speedup` is the forward MACs of
    the dense network that its steps are timed in turn with, over its own.
    `disk_bytes` is an upper bound for the row's cells. A row that evaluates has no iterations of its own: 0.
    `tuning_cells` is the number of trainings that choose the row's learning rate, of rows that share them that of the
    first, and `tuning_macs` what they cost together.

    Args:
        cell_cost: (cell) -> CostFigures, like `cell_costs.cell_cost`.
    """
    table = [_costs(cells, cell_cost) for cells in plan.rows.values()]
    counted: set[str] = set()
    for row in table:
        tuning = [cell for cell in plan.tuning_cells({row["row"]} & plan.tuning.keys()) if cell.id not in counted]
        counted.update(cell.id for cell in tuning)
        row["tuning_cells"] = len(tuning)
        row["tuning_macs"] = sum(training_macs(cell.cell) for cell in tuning)
        row["disk_bytes"] += len(tuning) * disk_bytes(tuning[0], row["trained_params"]) if tuning else 0
    macs = {row["row"]: row["training_macs"] for row in table}
    for row, cells in zip(table, plan.rows.values(), strict=True):
        budget = cells[0].cell.training.budget
        if budget is not None and cells[0].trains:
            row["budget"] = {"macs_of": budget.macs_of, "ratio": row["training_macs"] / macs[budget.macs_of]}
        if reference := plan.timed_with(cells[0]):
            row["ideal_speedup"] = cell_cost(reference.cell).dense_forward_macs / row["forward_macs"]
    return table


def _costs(cells: list[PlannedCell], cell_cost: Callable[[Cell], CostFigures]) -> dict[str, Any]:
    first = cells[0]
    cost = cell_cost(first.cell)
    return {
        "row": first.row,
        "cells": len(cells),
        "iterations": first.cell.training.iterations if first.trains else 0,
        "budget": None,
        "backbone": first.cell.backbone.label,
        "method": first.cell.method.name,
        "routes": format_routes(first.routes),
        "optimizer": first.cell.training.optimizer,
        "params": cost.params,
        "method_params": cost.method_params,
        "auxiliary_params": cost.auxiliary_params,
        "trained_params": cost.stored_params,
        "forward_macs": cost.forward_macs,
        "evaluated_forward_macs": cost.evaluated_forward_macs,
        "train_step_macs": cost.train_step_macs,
        "mean_train_step_macs": cost.mean_train_step_macs,
        "training_macs": training_macs(first.cell) if first.trains else 0,
        "tokens_per_block": cost.tokens_per_block,
        "ideal_speedup": cost.ideal_speedup,
        "disk_bytes": len(cells) * disk_bytes(first, cost.stored_params),
    }


def disk_bytes(planned: PlannedCell, params: int) -> int:
    """Return an upper bound of the disk space of a cell.

    It counts the last checkpoints, the weights of snapshots, a grid of 8-bit samples per evaluation and one of training
    images, and small files.
    """
    training = planned.cell.training
    channels, side = planned.cell.data.picture_shape
    grid = SAMPLES_KEPT * channels * (side + 1) ** 2
    evaluations = 0 if planned.cell.is_timed_only else len(planned.cell.metrics.iterations(training.iterations))
    weights = CHECKPOINTS_KEPT * checkpoint_bytes(params) + (len(training.snapshots) + 1) * 4 * params
    return (weights if planned.trains else 0) + (evaluations + 1) * grid + _OTHER_BYTES


def checkpoint_bytes(params: int) -> int:
    """Return the size of a checkpoint: weights, their average and both Adam moments, in float32."""
    return 4 * 4 * params


def state_bytes(params: int) -> int:
    """Return the memory of what a checkpoint has and of gradients, in float32."""
    return checkpoint_bytes(params) + 4 * params
