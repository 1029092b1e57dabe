"""From a merged row to a resolved cell, validated against its backbone's sizes and route rules. No torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any, NamedTuple

from pydantic import ValidationError

from tread_bench.core.config.base import MAX_NUMBER, SEEDS_PER_GROUP
from tread_bench.core.config.metrics import keys_of, settings_in_words
from tread_bench.core.config.routed import GUIDANCE, Setting, with_blocks
from tread_bench.core.config.sampling import misfits
from tread_bench.core.config.suite import Cell, Suite
from tread_bench.core.config.training import TORCH_NEEDED, Budget
from tread_bench.core.describe.families import BackboneSpec, Family, TextSpec, families, find_family, make_spec
from tread_bench.core.describe.guidance import iteration_at, iteration_or_share
from tread_bench.core.describe.methods import Tokens
from tread_bench.core.describe.metrics import Needs
from tread_bench.core.describe.routes import ResolvedRoute, format_routes, resolve_routes
from tread_bench.core.describe.selectors import find_selector
from tread_bench.core.problems import Loc, Problem, SuiteError, all_problems, shortened, validation_problems
from tread_bench.core.stored.documents import Reads
from tread_bench.suite.budgets import (
    NAMED,
    Budgets,
    Trained,
    contradictions,
    fitted,
    given_as_well,
    gives,
    other_start,
    too_far,
)
from tread_bench.suite.files import Files
from tread_bench.suite.merge import Draft, DraftRow
from tread_bench.suite.method_rules import method_problems, unreached
from tread_bench.suite.tuning import at_rate, tuning_problems
from tread_bench.suite.weights import Source, Sources, Weights, adopted, guided_by, started, weak_weights

MAX_BLOCKS = 10_000
_Backbone = tuple[Family, BackboneSpec]
_Routes = tuple[ResolvedRoute, ...]


class Resolved(NamedTuple):
    """A cell with nothing left open (routes in block numbers, `metrics.at` filled), its family and its sizes.

    `evaluated_weights` are the weights that a cell without training evaluates, `weak` those of guidance's weak branch,
    `start` those that a training starts from.
    `reference` is the cell whose total training MACs this one trains to.
    """

    cell: Cell
    family: Family
    spec: BackboneSpec
    evaluated_weights: Weights | None = None
    weak: Weights | None = None
    start: Weights | None = None
    reference: Cell | None = None

    @property
    def reads(self) -> dict[Reads, Weights]:
        """The weights that it reads, by what for."""
        named: dict[Reads, Weights | None]
        named = {"network": self.evaluated_weights, "weak": self.weak, "start": self.start}
        return {kind: weights for kind, weights in named.items() if weights is not None}

    def at_rates(self, row: str, rates: Mapping[str, float]) -> Resolved:
        """Return it with learning rates filled in, by row: its own, or those of the weights that it reads."""
        evaluated = self.evaluated_weights.at_rates(rates) if self.evaluated_weights else None
        weak = self.weak.at_rates(rates) if self.weak else None
        cell = self.cell
        if evaluated:
            cell = cell.model_copy(update={"training": evaluated.source.cell.training})
        elif cell.trains:
            cell = at_rate(cell, rates[row])
        return self._replace(cell=cell, evaluated_weights=evaluated, weak=weak)


class Resolver:
    """Resolves drafts of rows, each after those that it names: sorted by `budgets.need`.

    Results that rows share are computed once.

    Args:
        files: what is done about the files that cells read.
        seeds: seeds of the suite; a row of another run must have them all.
        budgets: all rows of the suite.
        has_tune: the suite chooses settings of its rows; otherwise rows give them.
    """

    def __init__(self, files: Files, seeds: Sequence[int], budgets: Budgets, has_tune: bool = False) -> None:
        self.files, self.sources, self.budgets, self.has_tune = files, Sources(seeds), budgets, has_tune
        self._backbones: dict[str, tuple[_Backbone | None, list[Problem]]] = {}
        self._routes: dict[tuple[object, ...], tuple[_Routes | None, list[Problem]]] = {}

    def resolve(self, row: DraftRow) -> Resolved:
        """Return the resolved cell. Raises SuiteError: what is wrong with it, with locations in the suite."""
        try:
            return self._resolved(row)
        except SuiteError as error:
            raise SuiteError(row.draft.moved(error.problems)) from None

    def _resolved(self, row: DraftRow) -> Resolved:
        # The cell as it is written. With a mistake in a key, nothing else of it is checked.
        written = _validated(row.draft.values)
        cell, draft, reference = written, row.draft, None

        # Check its parts against each other.
        problems = [] if cell.evaluate else [*_training_problems(cell, draft)]
        problems += _broken(("selector",), find_selector, cell.selector)
        if cell.generates:
            problems += _generation_problems(cell, draft)
        problems += [*_objective_problems(cell, draft), *self.files.problems(cell, draft)]
        highest = max(self.sources.seeds)
        if cell.seed_group and highest >= SEEDS_PER_GROUP:
            rule = f"groups are {SEEDS_PER_GROUP} seeds apart, so every seed must lie below that; here {highest}"
            problems.append(Problem(f"seed_group {cell.seed_group}: {rule}", ("seed_group",)))
        backbone, of_backbone = self._backbone(cell)
        problems += of_backbone
        routes = None
        if backbone is not None:
            problems += _variance_problems(cell, backbone[1], draft)
            routes, of_routes = self._resolve_routes(cell, *backbone)
            problems += of_routes
        if backbone is not None and routes is not None:
            problems += method_problems(cell.model_copy(update={"routes": routes}), *backbone, draft)

        # How long it trains.
        if self.has_tune and cell.evaluate is None:
            problems += tuning_problems(cell, draft)
        if cell.training.budget is not None and cell.evaluate is None:
            cell, reference = self._within_budget(cell, cell.training.budget, row, problems)
        if problems or backbone is None:
            raise SuiteError(problems)

        # Resolve what is relative: blocks of routes, iterations.
        last = cell.training.iterations
        changes: dict[str, Any] = {"routes": routes}
        if not cell.is_timed_only:
            changes["metrics"] = cell.metrics.model_copy(update={"at": cell.metrics.iterations(last)})
        if cell.training.snapshots:
            kept = sorted({iteration_at(moment, last) for moment in cell.training.snapshots})
            changes["training"] = cell.training.model_copy(update={"snapshots": tuple(kept)})
        cell = cell.model_copy(update=changes)

        # Add the weights that this row reads from others, and register its own for later rows.
        resolved = self._with_weights(Resolved(cell, *backbone, reference=reference), row)
        if cell.trains:
            history = resolved.start.source.determined_by if resolved.start else ()
            self.sources.rows[row.name] = Source(row.name, resolved.cell, history=history)
        if cell.evaluate is None:
            self.budgets.trained[row.name] = Trained(written, resolved.cell)
        return resolved

    def _within_budget(self, cell: Cell, budget: Budget, row: DraftRow, problems: list[Problem]) -> tuple[Cell, Cell]:
        """Return the cell at the length of its budget, and the cell that the budget names.

        Args:
            cell: the row's, without its length.
            problems: all problems of the cell so far; those of its length are appended.

        Raises:
            SuiteError: it has no length, because of its own problems or of those of the cell that the budget names.
        """
        # Whether the budget can be followed.
        problems += given_as_well(row.draft)
        try:
            name = self.budgets.named(budget, row)
        except ValueError as error:
            raise SuiteError([*problems, Problem(str(error), NAMED)]) from None
        other = self.budgets.trained.get(name)
        if other is not None:
            problems += contradictions(cell, row.draft, other.written, name)
        if problems or other is None:  # the mistakes of the other row are reported with it
            raise SuiteError(problems)

        # How long it is.
        cell, ratio = fitted(cell, name, other)
        problems += too_far(cell, ratio, other.cell)
        problems += [*_length_problems(cell, row.draft), *unreached(cell, row.draft)]
        return cell, other.cell

    def _with_weights(self, resolved: Resolved, row: DraftRow) -> Resolved:
        """Add the weights that it evaluates or starts from, and those of the weak branch, with all that follows.

        Raises SuiteError.
        """
        cell, family, spec = resolved[:3]
        evaluated_weights = weak = start = None
        if self.files.lacks_run(cell, row.draft):
            return resolved
        if cell.evaluate is not None:
            cell, evaluated_weights = adopted(cell, row, self.sources)
        elif cell.training.start is not None and cell.trains:
            cell, start = started(cell, spec, row, self.sources)
        problems = [*other_start(cell, row.draft, resolved.reference)] if resolved.reference else []
        try:
            weak = weak_weights(cell, evaluated_weights, self.sources, row)
        except ValueError as error:
            key = "snapshot" if cell.sampling.guidance.weak_row is None else "row"
            problems.append(Problem(str(error), (*GUIDANCE, key)))
        complete = with_blocks(Setting(guided_by(cell, weak) if weak else cell, family, spec))
        if isinstance(complete, list):
            raise SuiteError([*problems, *complete])
        if problems:
            raise SuiteError(problems)
        return resolved._replace(cell=complete, evaluated_weights=evaluated_weights, weak=weak, start=start)

    def _backbone(self, cell: Cell) -> tuple[_Backbone | None, list[Problem]]:
        key = cell.model_dump_json(include={"backbone", "data"})
        if key not in self._backbones:
            self._backbones[key] = _find_backbone(cell)
        return self._backbones[key]

    def _resolve_routes(self, cell: Cell, family: Family, spec: BackboneSpec) -> tuple[_Routes | None, list[Problem]]:
        key = (cell.routes, cell.selector, id(spec))  # the cache above keeps every spec alive
        if key not in self._routes:
            self._routes[key] = _resolve_routes(cell, family, spec)
        return self._routes[key]


def _validated(values: dict[str, Any]) -> Cell:
    """Return the cell of merged values. Raises SuiteError: all mistakes in its keys."""
    if values.get("evaluate") is not None:
        values = {"training": {"iterations": 1}, **values}  # replaced by its source's
    if gives(values, "budget"):
        values = {**values, "training": {**values["training"], "iterations": MAX_NUMBER}}  # replaced by the budget's
    try:
        return Cell.model_validate(values)
    except ValidationError as error:
        problems = validation_problems(error, Cell)
    for place, problem in enumerate(problems):
        key = str(problem.loc[0])
        if problem.at_key and len(problem.loc) == 1 and key in Suite.model_fields:
            rule = f"{key} is a key of the suite, not of a row: write it at the left margin, beside base"
            problems[place] = replace(problem, message=rule)
    raise SuiteError(problems)


def _find_backbone(cell: Cell) -> tuple[_Backbone | None, list[Problem]]:
    """The family and its sizes for the cell's data, and what is wrong with them."""
    try:
        family, published = find_family(cell.backbone.name)
    except ValueError as error:
        return None, [Problem(str(error), ("backbone", "name"))]

    # The shape of the data.
    problems: list[Problem] = []
    shape, sizes = cell.backbone.sizes_of(cell.data), {}
    for key, value in cell.backbone.sizes.items():
        if key not in shape:
            sizes[key] = value
        elif value != shape[key]:
            message = f"backbone.{key} {value!r}: the data has {shape[key]}; leave the key out"
            problems.append(Problem(message, ("backbone", key)))
    if mismatched := list(_text_problems(cell, family, shape)):
        return None, problems + mismatched

    # The sizes for it.
    values = {**published, **shape, **sizes}
    if wrong_sizes := all_problems(values, family.spec, ("backbone",)):
        return None, problems + wrong_sizes
    spec = family.spec.model_validate(values)
    for key, value in spec:
        if isinstance(value, int | float) and value > MAX_NUMBER:
            message = f"backbone.{key} {shortened(value)}: must be at most {MAX_NUMBER}"
            problems.append(Problem(message, ("backbone", key)))
    if family.num_blocks(spec) > MAX_BLOCKS:
        problems.append(Problem(f"backbone: more than {MAX_BLOCKS} blocks; make it shallower", ("backbone", "depth")))
    return (None if problems else (family, spec)), problems


def _text_problems(cell: Cell, family: Family, shape: Mapping[str, int]) -> Iterator[Problem]:
    """Problems of captions that the backbone cannot read, and of a backbone that takes text where there is none."""
    data, name = cell.data, cell.backbone.label
    if data.text_shape is not None:
        if not issubclass(family.spec, TextSpec):
            able = ", ".join(one.name for one in families().values() if issubclass(one.spec, TextSpec))
            rule = f"takes no text, and data {data.name} has captions: choose {able}, or data without captions"
            yield Problem(f"backbone {name} {rule}", ("backbone", "name"))
        return
    try:
        spec = make_spec(cell.backbone.name, **{**shape, **cell.backbone.sizes, "num_classes": 0})[1]
    except ValidationError:
        return
    if spec.context_shape is not None:
        tokens, width = spec.context_shape
        plain = {**shape, **cell.backbone.sizes, "num_classes": 0, "context_tokens": 0}
        takes_none = not all_problems(plain, family.spec, ())
        ways_out = ["data with captions", "a backbone without text", *(["context_tokens: 0"] if takes_none else [])]
        yield Problem(
            f"backbone {name} takes text ({tokens} tokens of width {width}), but data {data.name} has "
            f"{data.num_classes or 'no'} labels and no captions: choose {', '.join(ways_out[:-1])}, or {ways_out[-1]}",
            ("backbone", "context_tokens" if "context_tokens" in cell.backbone.sizes else "name"),
        )


def _resolve_routes(cell: Cell, family: Family, spec: BackboneSpec) -> tuple[_Routes | None, list[Problem]]:
    problems = list(_broken(("routes",), resolve_routes, cell.routes, family.num_blocks(spec)))
    if cell.routes:
        problems += _broken(("selector",), family.check_selector, cell.selector)
    problems = problems or list(_broken(("routes",), family.resolve, spec, cell.routes, cell.selector))
    return (None if problems else family.resolve(spec, cell.routes, cell.selector)), problems


def _broken(loc: Loc, rule: Callable[..., object], *values: object) -> Iterator[Problem]:
    try:
        rule(*values)
    except ValueError as error:
        yield Problem(str(error), loc)


def _generation_problems(cell: Cell, draft: Draft) -> Iterator[Problem]:
    """What metrics of generated images need of the cell."""
    message = cell.data.family.not_comparable(cell.data)
    has_reference = cell.metrics.reference is not None and cell.data.family.decoding(cell.data) is not None
    if message and not has_reference:  # decoded samples are compared with a file, whatever images the data have
        yield Problem(message, draft.latest(("data", "name"), ("metrics", "generate")))
    if not cell.metrics.lacks_network(cell.data):
        yield from _broken(("metrics", "extractor"), cell.metrics.measured, cell.data)
    for metric in cell.metrics.of_samples:
        family, places = metric.family, [("metrics", key) for key in keys_of(metric)]
        least = family.min_samples(metric)
        if cell.metrics.num_samples < least:
            setting = settings_in_words(metric)
            rule = f"too few for metric {metric.name}, which needs {least} or more{setting}; change one"
            message = f"metrics.num_samples {cell.metrics.num_samples}: {rule}"
            yield Problem(message, draft.latest(("metrics", "num_samples"), *places))
        reason = family.unfit(metric, cell.data)
        if Needs.LABELS in family.needs and not cell.data.num_classes:
            reason = f"data {cell.data.name} has no labels, which it needs; leave it out"
        if reason:
            yield Problem(f"metric {metric.name}: {reason}", draft.latest(("data", "name"), *places))


def _length_problems(cell: Cell, draft: Draft) -> Iterator[Problem]:
    """Iterations that a cell's training does not have, and what needs weights where nothing is trained."""
    if not cell.trains:
        for part, key in (("training", "snapshots"), ("metrics", "at"), ("metrics", "routed_rates")):
            if value := getattr(getattr(cell, part), key):
                rule = "training.iterations 0 trains and evaluates nothing; leave the key out, or train"
                loc = draft.latest((part, key), ("training", "iterations"))
                yield Problem(f"{part}.{key} {shortened(list(value))}: {rule}", loc)
        if cell.training.start is not None:
            rule = "training.iterations 0 trains nothing, so nothing starts; leave the key out, or train"
            yield Problem(f"training.start: {rule}", draft.latest(("training", "start"), ("training", "iterations")))
        return

    # Moments: iterations, or shares of the training. With a budget, only the length itself and snapshots are given.
    last = cell.training.iterations
    moments = () if cell.training.budget else cell.metrics.at or ()
    at = []
    for k, moment in enumerate(moments):
        try:
            iteration_or_share(moment, first=0)
            at.append(iteration_at(moment, last))
        except ValueError as error:
            yield Problem(f"metrics.at.{k}: {error}", draft.latest(("metrics", "at", k)))
    for k, moment in enumerate(cell.training.snapshots):
        if moment > last:
            message = f"training.snapshots {moment:g}: must lie in 1..{last} (training.iterations)"
            yield Problem(message, draft.latest(("training", "snapshots", k), ("training", "iterations")))
    first = int(cell.training.start is None)
    is_ordered = at == sorted(set(at)) and all(first <= iteration <= last for iteration in at)
    if len(at) == len(moments) and not is_ordered:
        message = f"metrics.at {list(moments)}: must ascend and lie in {first}..{last} (training.iterations)"
        yield Problem(message, draft.latest(("metrics", "at"), ("training", "iterations")))


def _training_problems(cell: Cell, draft: Draft) -> Iterator[Problem]:
    """Violations of rules that join several keys of a training."""
    yield from _length_problems(cell, draft)
    yield from _adapter_problems(cell, draft)

    # An optimiser that the installed torch does not have; where there is no torch, nothing is known.
    optimizer, installed = cell.training.optimizer, _installed_torch()
    major, minor = TORCH_NEEDED[optimizer]
    if installed and tuple(map(int, installed.split(".")[:2])) < (major, minor):
        rule = f"torch has it from {major}.{minor} on, and {installed} is installed: install a newer one"
        yield Problem(f"training.optimizer {optimizer}: {rule}, or choose adamw", ("training", "optimizer"))

    # Routes of a method that takes none, and none of one that needs some.
    method, takes_routes = cell.method.name, cell.method.family.takes_routes
    message = ""
    if cell.routes and not takes_routes:
        written = format_routes(cell.routes)
        message = f"method {method} takes no routes, here {written}: set routes: [] or method: tread"
    elif takes_routes and not cell.routes:
        message = f"method {method} needs routes: add them (routes: 2:8@0.5) or set method: dense"
    if message:
        yield Problem(message, draft.latest(("method",), ("routes",)))


@cache
def _installed_torch() -> str | None:
    """The version of the installed torch, read once: its metadata is long, and every cell asks."""
    try:
        return version("torch")
    except PackageNotFoundError:
        return None


def _adapter_problems(cell: Cell, draft: Draft) -> Iterator[Problem]:
    """Why adapters cannot be trained alone, or could not adapt anything."""
    training, method = cell.training, cell.method
    if training.lora is None:
        return
    at = ("training", "lora")
    if find_spec("peft") is None:
        yield Problem("training.lora needs peft: pip install 'tread-bench[lora]'", at)
    if training.start is None and cell.trains:
        rule = "adapters of drawn weights have nothing to adapt: say whose weights they start from (training.start)"
        yield Problem(f"training.lora: {rule}", at)
    if training.optimizer != "adamw":
        message = f"training.lora: adapters are trained by adamw, here {training.optimizer}; leave one of the two out"
        yield Problem(message, draft.latest(("training", "optimizer"), at))
    if method.family.tokens not in (Tokens.ALL_PASS, Tokens.BYPASS) or not method.family.is_plain_backbone:
        rule = "has more than a backbone whose tokens pass or bypass its blocks; choose tread or dense, or train all"
        yield Problem(f"training.lora: method {method.name} {rule}", draft.latest(("method", "name"), at))
    if cell.auxiliary:
        rule = "adapters alone are trained, and auxiliary losses train layers of their own; leave one of the two out"
        yield Problem(f"training.lora: {rule}", draft.latest(("auxiliary",), at))


def _objective_problems(cell: Cell, draft: Draft) -> Iterator[Problem]:
    """Problems of times and samplers that the objective does not have."""
    name, times, (low, high) = cell.objective.name, cell.metrics.similarity_times, cell.objective.time_range
    if not all(low <= time <= high for time in times):
        rule = f"those of objective {name} lie in {low:g}..{high:g}; leave the key out for its own"
        loc = draft.latest(("metrics", "similarity_times"), ("objective", "name"))
        yield Problem(f"metrics.similarity_times {shortened(list(times))}: {rule}", loc)
    for key, message in misfits(cell.sampling, cell.objective):
        yield Problem(message, draft.latest(("sampling", key), ("objective", "name")))


def _variance_problems(cell: Cell, spec: BackboneSpec, draft: Draft) -> Iterator[Problem]:
    """A variance to be learned that the backbone does not compute."""
    if cell.objective.reads_variance and spec.out_channels == spec.channels:
        yield Problem(
            f"objective {cell.objective.name} learns a variance, for which backbone {cell.backbone.label} has no "
            "output: choose one with learn_sigma: true, such as DiT-S/2, or set objective.learned_variance: false",
            draft.latest(("objective", "learned_variance"), ("backbone", "learn_sigma"), ("backbone", "name")),
        )
