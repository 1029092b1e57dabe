"""From a suite to its cells: validated against their backbones, resolved and named. No torch, no training."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from tread_bench.core.config.base import SEEDS_PER_GROUP
from tread_bench.core.config.suite import Cell, Suite, Tune
from tread_bench.core.config.training import RoutingSchedule
from tread_bench.core.names import unknown
from tread_bench.core.problems import Place, Problem, SuiteError
from tread_bench.core.stored.documents import Reads, Registered, WeightsRef
from tread_bench.suite.budgets import need
from tread_bench.suite.files import Files
from tread_bench.suite.hypothesis import undecidable
from tread_bench.suite.merge import draft_rows
from tread_bench.suite.resolve import Resolver, Row
from tread_bench.suite.smoke import shortener, smoke_timing
from tread_bench.suite.tuning import shortest, tuning_cell, unfit_to_tune

CHECKPOINTS_KEPT = 2
SAMPLES_KEPT = 40  # images in the grid that each evaluation saves
_OTHER_BYTES = 2**20  # per cell: record, log, names inside its checkpoints, its share of the page


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCell:
    """One training in a plan, one measurement of speed, or one evaluation of weights that another cell trains.

    `reference` is the id of the plainly dense cell of the same seed that differs only in
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
    reference: str = ""
    architecture_key: str
    row_key: str
    sources: Mapping[Reads, WeightsRef] = field(default_factory=dict)
    tunes: str = ""

    @property
    def paired_seed(self) -> int:
        """The suite's seed that it has, whatever its seed group."""
        return self.seed - SEEDS_PER_GROUP * self.cell.seed_group

    @property
    def is_timed(self) -> bool:
        """Whether speed and memory of the cell's training step are measured."""
        return self.cell.evaluate is None and not self.tunes


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
    expanded: tuple[Row, ...] = field(default=(), repr=False, compare=False)  # all rows, at the suite's learning rates

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
    def registered(self) -> Registered | None:
        """What the suite states before it runs."""
        return Registered.of(self.suite.hypothesis) if self.suite.hypothesis else None

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
        found: dict[str, PlannedCell] = {}
        for row in rows:
            candidates = (*self.tuning[row].values(), *self.checks.get(row, {}).values())
            found |= {cell.id: cell for cells in candidates for cell in cells}
        return [*found.values()]

    def tuned_at(self, row: str) -> str:
        """Return the shorter row at whose length a row is tuned; "" for its own."""
        first = next(iter(self.tuning[row].values()))[0]
        return first.tunes if self.suite.tune and self.suite.tune.shortest and first.tunes != row else ""

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
            needed = row.read_rows
            if row.cell.trains:
                needed.add(row.name)
            if needed <= choices.keys():
                known.append(row.at_rates(choices))
        pending = (len(self.expanded) - len(known)) * len(self.suite.seeds)
        return replace(self, cells=_cells(known, self.suite), pending=pending)

    def as_smoke(self, replaced: Callable[[Cell], Cell] = lambda cell: cell) -> Plan:
        """Return the plan shortened to one seed, a few iterations and samples, to show that everything works.

        Args:
            replaced: returns the cell to plan instead of one.
        """
        timing = smoke_timing(self.suite.timing)
        suite = self.suite.model_copy(update={"timing": timing, "seeds": self.suite.seeds[:1]})
        shorter = shortener({row.name: replace(row, suite=suite) for row in self.expanded}, replaced)
        rows = tuple(shorter(row.name) for row in self.expanded)
        return replace(_planned(rows, suite), is_smoke=True)

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

        # With the rows whose weights they read, and those that these read.
        reads = {row.name: row.read_rows for row in self.expanded}
        wave = {row for rows in found.values() for row in rows} or {*self.rows}
        chosen = set(wave)
        while wave := {read for row in wave for read in reads[row]} - chosen:
            chosen |= wave
        return [cell for cell in self.cells if cell.row in chosen]


def expand(suite: Suite, files: Files | None = None) -> Plan:
    """Expand a suite to its cells, each validated against its backbone.

    Args:
        files: what is done about the files that it names; None: they must exist.

    Raises:
        SuiteError: all mistakes of all cells, each once, with their location in the suite.
    """
    # Resolve the rows, each after those that it names, and collect every mistake.
    problems: list[Problem] = []
    drafts = list(draft_rows(suite, problems))
    files = files or Files()
    resolver = Resolver(suite, files, drafts)
    rows: dict[int, Row] = {}
    for place, draft in sorted(enumerate(drafts), key=lambda entry: need(entry[1])):
        try:
            rows[place] = resolver.resolve(draft)
        except SuiteError as error:
            problems += draft.draft.moved(error.problems)

    # Check the rows against each other, in the suite's order: some would train the same cells again, or share a name.
    ordered = tuple(rows[place] for place in sorted(rows))
    cells_of: dict[str, Cell] = {}
    by_key: dict[str, Row] = {}
    for place in sorted(rows):
        row, loc = rows[place], drafts[place].loc
        first = by_key.setdefault(row.key, row)
        if first is not row:
            message = f"row {row.name!r} has the same cells as row {first.name!r}: change one of them or remove it"
            problems.append(Problem(message, loc, at_key=True))
        elif row.name in cells_of:
            problems.append(Problem(f"two rows are called {row.name!r}: rename one", loc, at_key=True))
        cells_of[row.name] = row.cell
    untrained = [name for name, cell in cells_of.items() if cell.is_timed_only]
    if untrained and not suite.timing.pairs:
        rule = f"row {untrained[0]!r} is only timed (training.iterations 0), so nothing of it would be measured"
        problems.append(Problem(f"timing.pairs 0: {rule}; time 2 pairs or more, or train it", ("timing", "pairs")))
    if suite.tune is not None and not problems:
        seeds = [row.seed(seed) for row in ordered for seed in suite.seeds]
        problems += unfit_to_tune(suite.tune, cells_of, seeds)
    if suite.hypothesis is not None and not problems:
        problems += undecidable(suite.hypothesis, cells_of.items())
    if problems or (files.missing and not files.allows_missing):
        raise SuiteError([*problems, *files.missing])
    return replace(_planned(ordered, suite), missing=tuple(dict.fromkeys(files.missing)))


def _planned(rows: tuple[Row, ...], suite: Suite) -> Plan:
    """The plan of resolved rows: the cells of every seed, and of a suite that chooses learning rates those that do."""
    plan = Plan(suite, _cells(rows, suite), expanded=rows)
    if suite.tune is None:
        return plan
    trained = {row.name: row for row in rows if row.cell.trains}
    shorter = shortest({name: row.cell for name, row in trained.items()}) if suite.tune.shortest else {}
    known: dict[str, tuple[PlannedCell, ...]] = {}
    tuning = {name: _candidates(trained[shorter.get(name, name)], suite.tune, known) for name in trained}
    checks = {name: _candidates(trained[name], suite.tune, known) for name in trained if name in suite.tune.check}
    return replace(plan, tuning=tuning, checks=checks)


def _candidates(row: Row, tune: Tune, known: dict[str, tuple[PlannedCell, ...]]) -> Candidates:
    """The tuning cells of a row by learning rate; by key, `known` has those that rows of other seeds share."""
    candidates = {}
    for rate in tune.rates(row.cell.training.learning_rate):
        cell = tuning_cell(row.cell, rate, tune)
        shorter = replace(row, name=f"{row.name} lr={rate:g}", cell=cell, reads={}, reference=None)
        if shorter.key not in known:
            known[shorter.key] = tuple(_cell(shorter, seed, tunes=row.name) for seed in tune.seed_numbers)
        candidates[rate] = known[shorter.key]
    return candidates


def _cell(row: Row, seed: int, **about: Any) -> PlannedCell:
    """A row's cell of a seed of the suite; `about` is its reference and sources, or what it tunes."""
    about |= {"architecture_key": row.architecture_key, "row_key": row.key}
    return PlannedCell(id=row.id(seed), row=row.name, seed=row.seed(seed), cell=row.cell, **about)


def _cells(rows: Sequence[Row], suite: Suite) -> tuple[PlannedCell, ...]:
    """The cells of every seed, with their references and the weights that they read."""
    # The first dense row of each comparison and seed group, and the first unguided row of each evaluation, better one
    # that evaluates alone.
    dense: dict[tuple[str, str], dict[int, Row]] = {}
    unguided: dict[str, Row] = {}
    for row in sorted(rows, key=lambda row: row.cell.evaluate is None):
        cell = row.cell
        if cell.evaluate is None and cell.is_plainly_dense:
            dense.setdefault(row.comparison_key, {}).setdefault(cell.seed_group, row)
        if cell.sampling.guidance.branches[1] is None and not (cell.evaluate and cell.evaluate.options):
            unguided.setdefault(row.unguided_key, row)

    # What each row is compared with.
    by_name = {row.name: row for row in rows}
    cells = []
    for row in rows:
        cell = row.cell
        if cell.evaluate is not None:
            reference = unguided.get(row.unguided_key)
        else:
            groups = dense.get(row.comparison_key, {})
            reference = groups[min(groups)] if groups else None
            if not cell.is_plainly_dense:
                reference = groups.get(cell.seed_group, reference)
        for seed in suite.seeds:
            sources: dict[Reads, WeightsRef] = {}
            for kind, weights in row.reads.items():
                source = weights.source
                read = source.cells[seed] if source.run else by_name[source.row].id(seed)
                sources[kind] = WeightsRef(cell=read, iteration=weights.iteration, run=source.run)
            cells.append(_cell(row, seed, reference=reference.id(seed) if reference else "", sources=sources))
    return tuple(cells)


Candidates = Mapping[float, tuple[PlannedCell, ...]]  # the tuning cells of a row, by learning rate


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
    return (weights if planned.cell.trains else 0) + (evaluations + 1) * grid + _OTHER_BYTES


def checkpoint_bytes(params: int) -> int:
    """Return the size of a checkpoint: weights, their average and both Adam moments, in float32."""
    return 4 * 4 * params
