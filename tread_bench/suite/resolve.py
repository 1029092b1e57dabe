"""From a merged row to a resolved cell, validated against its backbone's sizes and route rules. No torch."""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.util import find_spec
from typing import Any

from tread_bench.core.config.base import MAX_NUMBER, SEEDS_PER_GROUP
from tread_bench.core.config.choices import BackboneChoice
from tread_bench.core.config.metrics import keys_of
from tread_bench.core.config.routed import GUIDANCE, setting_of, with_blocks
from tread_bench.core.config.sampling import misfits
from tread_bench.core.config.suite import Cell, Suite
from tread_bench.core.config.training import Evaluate
from tread_bench.core.describe.data_sources import DataOptions
from tread_bench.core.describe.families import BackboneSpec, Family, TextSpec, families, find_family
from tread_bench.core.describe.guidance import iteration_at
from tread_bench.core.describe.methods import Tokens
from tread_bench.core.describe.metrics import Needs
from tread_bench.core.describe.routes import format_routes
from tread_bench.core.describe.selectors import selectors
from tread_bench.core.names import canonical_json, cell_id
from tread_bench.core.problems import Problem, SuiteError, all_problems, at, dotted, refuse
from tread_bench.core.stored.documents import Reads
from tread_bench.suite.budgets import NAMED, gives, to_budget
from tread_bench.suite.files import Files
from tread_bench.suite.merge import Draft, DraftRow
from tread_bench.suite.method_rules import method_problems, unreached
from tread_bench.suite.tuning import at_rate, tuning_problems
from tread_bench.suite.weights import Source, Sources, Weights, adopted, started, weak_weights

MAX_BLOCKS = 10_000
ROUTING_KEYS = ("method", "routes", "selector", "schedule", "auxiliary")  # how tokens are routed in training


@dataclass(frozen=True)
class Row:
    """A row of a suite before its cells differ by seed.

    `cell` has nothing left open: routes are in block numbers, and `metrics.at` is filled.
    `reads` has the weights that it reads: "network" those that a cell without training evaluates, "weak" those of
    guidance's weak branch, "start" those that a training starts from.
    `reference` is the cell whose total training MACs this one trains to.
    """

    name: str
    suite: Suite
    cell: Cell
    reads: Mapping[Reads, Weights] = field(default_factory=dict)
    reference: Cell | None = None

    @cached_property
    def key(self) -> str:
        """Digest of its cell, of the numerical choices, and of what determines the weights that it reads."""
        read: list[object] = []
        for kind, weights in self.reads.items():
            # The evaluating cell itself has what its training was.
            read += weights.source.history if kind == "network" else weights.source.determined_by
        cell, compute = self.cell.model_dump(mode="json"), self.suite.compute.model_dump(mode="json")
        return digest(canonical_json([cell, compute, *read]))

    @cached_property
    def architecture_key(self) -> str:
        """Digest of its backbone."""
        backbone = self.cell.backbone
        return digest(f"{backbone.family().name} {backbone.spec(self.cell.data).model_dump_json()}")

    @property
    def comparison_key(self) -> tuple[str, str]:
        """All but `ROUTING_KEYS` and the seed group; with a budget, at the length of the row that it names."""
        shared = self.cell
        if self.reference is not None:
            length = {"iterations": self.reference.training.iterations, "budget": None}
            training = shared.training.model_copy(update=length)
            metrics = shared.metrics.model_copy(update={"at": self.reference.metrics.at})
            shared = shared.model_copy(update={"training": training, "metrics": metrics})
        own: Any = dict.fromkeys(("backbone", "seed_group", *ROUTING_KEYS), True)
        own["training"] = {"snapshots", "learning_rate"} if self.suite.tune else {"snapshots"}
        return self.architecture_key, shared.model_dump_json(exclude=own)

    @property
    def unguided_key(self) -> str:
        """Key of the weights and of their evaluation, without guidance and as their method is evaluated by itself."""
        evaluated = self.cell.evaluate or Evaluate(row=self.name, iteration=self.cell.training.iterations or None)
        aside = {"sampling": {"guidance", "guidance_scale"}, "metrics": {"at"}}
        weights = evaluated.model_dump_json(exclude={"options"})
        return f"{weights} {self.cell.model_dump_json(include={'sampling', 'metrics'}, exclude=aside)}"

    @property
    def read_rows(self) -> set[str]:
        """The rows of this run whose weights it reads."""
        return {weights.source.row for weights in self.reads.values() if not weights.source.run}

    def seed(self, seed: int) -> int:
        """Return the seed of its cell that has this seed of the suite."""
        return seed + SEEDS_PER_GROUP * self.cell.seed_group

    def id(self, seed: int) -> str:
        """Return the id of its cell that has this seed of the suite."""
        return cell_id(self.name, self.seed(seed), self.key)

    def at_rates(self, rates: Mapping[str, float]) -> Row:
        """Return it with learning rates filled in, by row: its own, or those of the weights that it reads."""
        reads = {kind: weights.at_rates(rates) for kind, weights in self.reads.items()}
        cell = self.cell
        if "network" in reads:
            cell = cell.model_copy(update={"training": reads["network"].source.cell.training})
        elif cell.trains:
            cell = at_rate(cell, rates[self.name])
        return replace(self, cell=cell, reads=reads)


def digest(text: str) -> str:
    """Return the first ten hexadecimal digits of the text's SHA-256."""
    return hashlib.sha256(text.encode()).hexdigest()[:10]


class Resolver:
    """Resolves drafts of rows, each after those that it names: sorted by `budgets.need`.

    Args:
        files: what is done about the files that cells read.
        rows: all rows of the suite.
    """

    def __init__(self, suite: Suite, files: Files, rows: Iterable[DraftRow]) -> None:
        self.suite, self.files, self.sources = suite, files, Sources(suite.seeds, rows)

    def resolve(self, row: DraftRow) -> Row:
        """Return the resolved row. Raises SuiteError: its first part that is wrong, with locations in the cell."""
        # Its keys, and parts that concern no backbone.
        draft, reference = row.draft, None
        written = cell = _validated(draft.values)
        trains_itself = cell.evaluate is None
        refuse(_problems_of_parts(cell, draft, max(self.suite.seeds)))
        if self.suite.tune is not None and trains_itself:
            refuse(tuning_problems(cell, draft))

        # Its backbone, the routes through it, and its files.
        family, spec = _find_backbone(cell.backbone, cell.data)
        if cell.objective.reads_variance and spec.out_channels == spec.channels:
            rule = f"learns a variance, for which backbone {cell.backbone.label} has no output: choose one with"
            way_out = "learn_sigma: true, such as DiT-S/2, or set objective.learned_variance: false"
            keys = (("objective", "learned_variance"), ("backbone", "learn_sigma"), ("backbone", "name"))
            raise SuiteError([Problem(f"objective {cell.objective.name} {rule} {way_out}", draft.latest(*keys))])
        with at("selector"):
            selectors.find(cell.selector)
            if cell.routes:
                family.check_selector(cell.selector)
        with at("routes"):
            routes = family.resolve(spec, cell.routes, cell.selector)
        refuse(method_problems(cell.model_copy(update={"routes": routes}), family, spec, draft))
        refuse(self.files.problems(cell, draft))

        # How long it trains.
        if cell.training.budget is not None and trains_itself:
            other = self.sources.of_budget(cell.training.budget, row)
            assert other.written is not None
            cell, reference = to_budget(cell, draft, other.row, other.written, other.cell), other.cell
            refuse([*_length_problems(cell, draft), *unreached(cell, draft)])

        # Resolve what is relative: blocks of routes, iterations.
        last = cell.training.iterations
        changes: dict[str, Any] = {"routes": routes}
        if not cell.is_timed_only:
            changes["metrics"] = cell.metrics.model_copy(update={"at": cell.metrics.iterations(last)})
        if cell.training.snapshots:
            kept = sorted({iteration_at(moment, last) for moment in cell.training.snapshots})
            changes["training"] = cell.training.model_copy(update={"snapshots": tuple(kept)})
        resolved = Row(row.name, self.suite, cell.model_copy(update=changes), reference=reference)

        # Add the weights that this row reads from others, and register its own for later rows.
        if not self.files.lacks_run(cell, draft):
            resolved = self._with_weights(resolved, row, spec)
        if trains_itself:
            history = resolved.reads["start"].source.determined_by if "start" in resolved.reads else ()
            self.sources.rows[row.name] = Source(row.name, resolved.cell, written=written, history=history)
        return resolved

    def _with_weights(self, resolved: Row, row: DraftRow, spec: BackboneSpec) -> Row:
        """Add the weights that it evaluates or starts from, and those of the weak branch, with all that follows."""
        cell = resolved.cell
        reads: dict[Reads, Weights] = {}
        if cell.evaluate is not None:
            cell, reads["network"] = adopted(cell, cell.evaluate, row, self.sources)
        elif cell.training.start is not None and cell.trains:
            cell, reads["start"] = started(cell, cell.training.start, spec, row, self.sources)
        budget, other = cell.training.budget, resolved.reference
        if budget is not None and other is not None and cell.training.start != other.training.start:
            rule = f"row {budget.macs_of!r}, which the budget names, starts from other weights; set the same"
            raise SuiteError([Problem(f"training.start: {rule}", row.draft.latest(("training", "start"), NAMED))])
        with at(*GUIDANCE, "snapshot" if cell.sampling.guidance.weak_row is None else "row"):
            weak = weak_weights(cell, reads.get("network"), self.sources, row)
        if weak:
            reads["weak"] = weak
            guidance = cell.sampling.guidance.with_weights(weak.source.row, weak.iteration)
            cell = cell.model_copy(update={"sampling": cell.sampling.model_copy(update={"guidance": guidance})})
        return replace(resolved, cell=with_blocks(setting_of(cell)), reads=reads)


def _validated(values: dict[str, Any]) -> Cell:
    """Return the cell of merged values. Raises SuiteError: all mistakes in its keys."""
    if values.get("evaluate") is not None:
        values = {"training": {"iterations": 1}, **values}  # replaced by its source's
    if gives(values, "budget"):
        values = {**values, "training": {**values["training"], "iterations": MAX_NUMBER}}  # replaced by the budget's
    rule = "is a key of the suite, not of a row: write it at the left margin, beside base"
    refuse(told_where(all_problems(values, Cell), Suite.model_fields, rule))
    return Cell.model_validate(values)


def told_where(problems: Iterable[Problem], keys: Container[object], rule: str) -> Iterator[Problem]:
    """Yield the problems, those of unknown keys that are among `keys` with the rule that says where these belong."""
    for problem in problems:
        if problem.at_key and len(problem.loc) == 1 and problem.loc[0] in keys:
            problem = replace(problem, message=f"{problem.loc[0]} {rule}")
        yield problem


def _find_backbone(backbone: BackboneChoice, data: DataOptions) -> tuple[Family, BackboneSpec]:
    """Return the family and its sizes for the data. Raises SuiteError."""
    with at("backbone", "name"):
        family, published = find_family(backbone.name)

    # What follows from the data.
    shape, sizes = backbone.sizes_of(data), backbone.sizes
    for key in shape.keys() & sizes.keys():
        if sizes[key] != shape[key]:
            with at("backbone", key):
                raise ValueError(f"backbone.{key} {sizes[key]!r}: the data has {shape[key]}; leave the key out")
    takes_text = issubclass(family.spec, TextSpec)
    if data.text_shape is not None and not takes_text:
        able = ", ".join(one.name for one in families().values() if issubclass(one.spec, TextSpec))
        rule = f"takes no text, and data {data.name} has captions: choose {able}, or data without captions"
        raise SuiteError([Problem(f"backbone {backbone.label} {rule}", ("backbone", "name"))])
    values = {**published, **sizes, **shape}
    if data.text_shape is None and takes_text:
        tokens = values.get("context_tokens", family.spec.model_fields["context_tokens"].default)
        if tokens:
            rule = "choose data with captions, or a backbone or size without text (context_tokens: 0)"
            message = f"backbone {backbone.label} takes {tokens} tokens of text, and data {data.name} has no captions"
            raise SuiteError([Problem(f"{message}: {rule}", ("backbone", "name"))])

    # All sizes.
    refuse(all_problems(values, family.spec, ("backbone",)))
    spec = family.spec.model_validate(values)
    for key, value in spec:
        if isinstance(value, int | float) and value > MAX_NUMBER:
            raise SuiteError([Problem(f"backbone.{key} {value}: must be at most {MAX_NUMBER}", ("backbone", key))])
    if family.num_blocks(spec) > MAX_BLOCKS:
        raise SuiteError([Problem(f"backbone: at most {MAX_BLOCKS} blocks; make it shallower", ("backbone", "depth"))])
    return family, spec


def _problems_of_parts(cell: Cell, draft: Draft, highest_seed: int) -> Iterator[Problem]:
    """Mistakes in what concerns no backbone: training, images, objective, seeds."""
    if cell.evaluate is None:
        yield from _length_problems(cell, draft)
        yield from _adapter_problems(cell, draft)

        # Routes of a method that takes none, and none of one that needs some.
        if cell.method.family.takes_routes != bool(cell.routes):
            rule = "needs routes: add them (routes: 2:8@0.5) or set method: dense"
            if cell.routes:
                rule = f"takes no routes, here {format_routes(cell.routes)}: set routes: [] or method: tread"
            yield Problem(f"method {cell.method.name} {rule}", draft.latest(("method",), ("routes",)))
    if cell.generates:
        yield from _generation_problems(cell, draft)

    # Times and samplers that the objective does not have.
    name, times, (low, high) = cell.objective.name, cell.metrics.similarity_times, cell.objective.time_range
    if not all(low <= time <= high for time in times):
        rule = f"those of objective {name} lie in {low:g}..{high:g}; leave the key out for its own"
        loc = draft.latest(("metrics", "similarity_times"), ("objective", "name"))
        yield Problem(f"metrics.similarity_times {list(times)}: {rule}", loc)
    for key, message in misfits(cell.sampling, cell.objective):
        yield Problem(message, draft.latest(("sampling", key), ("objective", "name")))
    if cell.seed_group and highest_seed >= SEEDS_PER_GROUP:
        rule = f"groups are {SEEDS_PER_GROUP} seeds apart, so every seed must lie below that; here {highest_seed}"
        yield Problem(f"seed_group {cell.seed_group}: {rule}", ("seed_group",))


def _generation_problems(cell: Cell, draft: Draft) -> Iterator[Problem]:
    """What metrics of generated images need of the cell."""
    message = cell.data.family.not_comparable(cell.data)
    has_reference = cell.metrics.reference is not None and cell.data.family.decoding(cell.data) is not None
    if message and not has_reference:  # decoded samples are compared with a file, whatever images the data have
        yield Problem(message, draft.latest(("data", "name"), ("metrics", "generate")))
    if not cell.metrics.lacks_network(cell.data):
        with at("metrics", "extractor"):
            cell.metrics.measured(cell.data)
    for metric in cell.metrics.of_samples:
        family, places = metric.family, [("metrics", key) for key in keys_of(metric)]
        least = family.min_samples(metric)
        if cell.metrics.num_samples < least:
            ways = " or ".join(["it", *map(dotted, places)])
            rule = f"too few for metric {metric.name}, which needs {least} or more; change {ways}"
            message = f"metrics.num_samples {cell.metrics.num_samples}: {rule}"
            yield Problem(message, draft.latest(("metrics", "num_samples"), *places))
        reason = family.unfit(metric, cell.data)
        if Needs.LABELS in family.needs and not cell.data.num_classes:
            reason = f"data {cell.data.name} has no labels, which it needs; leave it out"
        if reason:
            yield Problem(f"metric {metric.name}: {reason}", draft.latest(("data", "name"), *places))


def _length_problems(cell: Cell, draft: Draft) -> Iterator[Problem]:
    """Iterations that a cell's training does not have, of moments: iterations, or shares of the training."""
    # With a budget, only the length itself and snapshots are given.
    last = cell.training.iterations
    for k, moment in enumerate(cell.training.snapshots):
        if moment > last:
            message = f"training.snapshots {moment:g}: must lie in 1..{last} (training.iterations)"
            yield Problem(message, draft.latest(("training", "snapshots", k), ("training", "iterations")))
    moments = () if cell.training.budget else cell.metrics.at or ()
    at_iterations = [iteration_at(moment, last) for moment in moments]
    first = int(cell.training.start is None)
    if at_iterations != sorted(moment for moment in {*at_iterations} if first <= moment <= last):
        message = f"metrics.at {list(moments)}: must ascend and lie in {first}..{last} (training.iterations)"
        yield Problem(message, draft.latest(("metrics", "at"), ("training", "iterations")))


def _adapter_problems(cell: Cell, draft: Draft) -> Iterator[Problem]:
    """Why adapters cannot be trained alone, or could not adapt anything."""
    training, method = cell.training, cell.method
    if training.lora is None:
        return
    lora = ("training", "lora")
    if find_spec("peft") is None:
        yield Problem("training.lora needs peft: pip install 'tread-bench[lora]'", lora)
    if training.start is None and cell.trains:
        rule = "adapters of drawn weights have nothing to adapt: say whose weights they start from (training.start)"
        yield Problem(f"training.lora: {rule}", lora)
    if training.optimizer != "adamw":
        message = f"training.lora: adapters are trained by adamw, here {training.optimizer}; leave one of the two out"
        yield Problem(message, draft.latest(("training", "optimizer"), lora))
    if method.family.tokens not in (Tokens.ALL_PASS, Tokens.BYPASS) or not method.family.is_plain_backbone:
        rule = "has more than a backbone whose tokens pass or bypass its blocks; choose tread or dense, or train all"
        yield Problem(f"training.lora: method {method.name} {rule}", draft.latest(("method", "name"), lora))
    if cell.auxiliary:
        rule = "adapters alone are trained, and auxiliary losses train layers of their own; leave one of the two out"
        yield Problem(f"training.lora: {rule}", draft.latest(("auxiliary",), lora))
