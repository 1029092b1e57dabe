"""Parameters and MACs of a backbone, dense or routed, and of a cell's network: with method and auxiliary losses,
averaged over its schedule. They are counted with torch and kept on disk: reading takes no torch.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from statistics import fmean
from typing import Any, NamedTuple, TypeVar

from pydantic import TypeAdapter

from tread_bench.core.config.base import MAX_NUMBER
from tread_bench.core.config.routed import Setting
from tread_bench.core.config.sampling import calls
from tread_bench.core.config.suite import Cell
from tread_bench.core.config.training import Lora
from tread_bench.core.describe.families import BackboneSpec, Cost, Family, Macs
from tread_bench.core.describe.guidance import Branch
from tread_bench.core.describe.methods import Tokens
from tread_bench.core.describe.mixers import mixers
from tread_bench.core.describe.plugins import Description, code_sha256, named
from tread_bench.core.describe.routes import (
    Route,
    RoutesLike,
    as_routes,
    resolve_routes,
    tokens_per_block,
)
from tread_bench.core.describe.selectors import selectors
from tread_bench.core.numbers.schedule import stretches, summed_share
from tread_bench.core.stored.cache import cache_folder, keep
from tread_bench.core.stored.records import CostFigures

# What a count follows from, beside plug-ins of third parties.
_COUNTING = tuple(f"tread_bench.{room}" for room in ("backbones", "core", "data", "diffusion", "measure", "model"))
_LIBRARIES = ("torch", "timm", "peft")
_adapter: Any = cache(TypeAdapter)
_known: dict[str, Any] = {}
T = TypeVar("T")
VALIDATION_TIMES = 8  # noise levels of each objective's validation loss


@dataclass(frozen=True, slots=True)
class Counts:
    """A backbone counted with 0, 1 and 2 tokens that bypass its blocks: MACs quadratic in them are then known for any.

    `blocks` holds, for each block and each of the three, MACs (linear, attention, scan, inputs), of which the last are
    the block's part of `Cost.inputs`. `inputs` is the part outside the blocks.
    """

    params: int
    trainable_params: int
    outside: Macs
    inputs: int
    blocks: tuple[tuple[tuple[int, int, int, int], ...], ...]

    def cost(self, bypassed: Sequence[int]) -> Cost:
        """Return the cost where each block has a number of tokens that bypass it."""
        counts = [self._at(block, n) for block, n in enumerate(bypassed)]
        blocks = tuple(Macs(linear, attention, scan) for linear, attention, scan, _ in counts)
        inputs = self.inputs + sum(of_block for *_, of_block in counts)
        return Cost(self.params, self.trainable_params, blocks, self.outside, inputs)

    def block(self, block: int, bypassed: int) -> Macs:
        """Return the forward MACs of one block."""
        return Macs(*self._at(block, bypassed)[:3])

    def _at(self, block: int, n: int) -> list[int]:
        """The polynomial through the counts at 0, 1 and 2, at n (Newton's forward differences)."""
        by_kind = zip(*self.blocks[block], strict=True)
        return [zero + n * (one - zero) + n * (n - 1) // 2 * (two - 2 * one + zero) for zero, one, two in by_kind]


def counted(kind: type[T], target: str, about: str, plugins: Sequence[Description], *arguments: Any) -> T:
    """Return what a function counts, from disk where the same code has counted the same before.

    Args:
        kind: type of the result.
        target: "module:attribute" of the function.
        about: all that the result depends on besides code: what distinguishes `arguments`.
        plugins: what is counted; of code that no distribution has announced, nothing is kept.
    """
    if not all(plugin.source for plugin in plugins):
        return named(target)(*arguments)
    code = sorted(f"{plugin.source} {getattr(plugin, 'builder', '')}" for plugin in plugins)
    key = f"{target} {about} {code} {_code()}"
    path = cache_folder("costs") / f"{hashlib.sha256(key.encode()).hexdigest()}.json"
    if key not in _known:
        try:
            _known[key] = _adapter(kind).validate_json(path.read_bytes())
        except (OSError, ValueError):
            _known[key] = named(target)(*arguments)
            keep(path, _adapter(kind).dump_json(_known[key]))
    return _known[key]


@cache
def _code() -> str:
    """The code of this package that counts, and the libraries that it counts with."""
    return f"{code_sha256(_COUNTING)} {[version(library) for library in _LIBRARIES if find_spec(library)]}"


def cost_of(
    family: Family, spec: BackboneSpec, routes: RoutesLike = (), selector: str = "random", lora: Lora | None = None
) -> Cost:
    """Return the cost of a backbone, from few counts where MACs are quadratic in tokens; else, its own count.

    Args:
        lora: its adapters, which alone are trained.
    """
    routes = as_routes(routes)
    counts = counts_of(family, spec, lora)
    if counts is None:
        return _of_backbone(Cost, "tread_bench.measure.macs:count_cost", family, spec, routes, selector, lora)
    blocks = family.num_blocks(spec)
    tokens = tokens_per_block(resolve_routes(routes, blocks), blocks, spec.num_tokens)
    return counts.cost([spec.num_tokens - kept for kept in tokens])


@cache
def counts_of(family: Family, spec: BackboneSpec, lora: Lora | None = None) -> Counts | None:
    """Return the counts from which the cost of any route follows; None: a block's MACs are not quadratic in tokens."""
    counted_as: Any = Counts | None
    return _of_backbone(counted_as, "tread_bench.measure.macs:count_backbone", family, spec, lora)


def num_parameters(family: Family, spec: BackboneSpec) -> int:
    """Return the number of parameters of a backbone, for which it is built and not run."""
    return _of_backbone(int, "tread_bench.measure.macs:count_parameters", family, spec)


def _of_backbone(kind: type[T], target: str, family: Family, spec: BackboneSpec, *further: Any) -> T:
    """What a function counts of a backbone; its `further` arguments are written into the name of what is kept."""
    about = f"{family.builder} {spec.model_dump_json()} {further}"
    return counted(kind, target, about, (family, *mixers().values()), family, spec, *further)


def branch_cost(setting: Setting, branch: Branch, step: int = 0, steps: int = 1) -> Macs:
    """Return the MACs of one image's forward pass in a guidance branch, at one sampling step."""
    cell, family, spec = setting
    if not cell.method.family.is_plain_backbone:
        return evaluated_macs(cell, branch.drops_path)
    cost = cost_of(family, spec, branch.routes_at(step, steps), cell.selector, cell.training.lora)
    return sum((block for n, block in enumerate(cost.blocks) if n not in branch.dropped_blocks), cost.outside)


def evaluated_macs(cell: Cell, is_shallow: bool = False) -> Macs:
    """Return the MACs of one image's forward pass as the method is evaluated, or along its shallow path."""
    return _of_network(Macs, "tread_bench.measure.macs:count_evaluated", cell, is_shallow)


def _of_network(kind: type[T], target: str, cell: Cell, *further: Any) -> T:
    """What a function counts of a cell's network; its `further` arguments are written into the name of what is kept."""
    kept = {"backbone", "data", "method", "routes", "selector", "objective", "auxiliary"}
    requested = cell.model_dump_json(include={**dict.fromkeys(kept, True), "training": {"batch"}})
    about = f"{requested} {cell.backbone.spec(cell.data).model_dump_json()} {further}"
    losses = (loss.family for loss in cell.auxiliary)
    parts = [cell.backbone.family(), cell.method.family, selectors.find(cell.selector), *losses, *mixers().values()]
    return counted(kind, target, about, parts, cell, *further)


def sampling_macs(evaluated: Setting, times: Sequence[float], weak: Setting | None = None) -> int:
    """Return the MACs of one generated image: all calls of the sampler, with the branches that each call needs.

    Args:
        times: the sampler's times, steps + 1.
        weak: the weak branch's cell, if it has weights of its own.
    """
    sampling = evaluated.cell.sampling
    strong_branch, weak_branch = sampling.guidance.branches

    @cache
    def macs(step: int, guided: bool) -> int:
        total = branch_cost(evaluated, strong_branch, step, sampling.steps).total
        if guided and weak_branch is not None:
            setting = weak if weak_branch.other_weights and weak else evaluated
            total += branch_cost(setting, weak_branch, step, sampling.steps).total
        return total

    return sum(macs(call.step, call.guided) for call in calls(sampling, times))


def cost_figures(family: Family, spec: BackboneSpec, routes: RoutesLike = (), selector: str = "random") -> CostFigures:
    """Return the costs that a record stores, of a backbone alone."""
    resolved = family.resolve(spec, routes, selector)
    prefix = family.num_prefix(spec)
    tokens = tokens_per_block(resolved, family.num_blocks(spec), spec.num_tokens, prefix)
    routed, dense = cost_of(family, spec, resolved, selector), cost_of(family, spec)
    return figures_of(routed, dense, tokens, spec.num_tokens, prefix)


def figures_of(cost: Cost, dense: Cost, tokens: list[int], image_tokens: int, prefix: int = 0) -> CostFigures:
    """Return the costs that a record stores, of a routed network and the dense one.

    Args:
        tokens: in each block, with prefix tokens.
        prefix: number of prefix tokens.
    """
    return CostFigures(
        params=cost.params,
        trainable_params=cost.trainable_params,
        tokens_per_block=tokens,
        dense_tokens=prefix + image_tokens,
        prefix_tokens=prefix,
        forward_macs=cost.forward.total,
        dense_forward_macs=dense.forward.total,
        attention_macs=cost.forward.attention,
        scan_macs=cost.forward.scan,
        train_step_macs=cost.train_step,
        block_macs=[block.total for block in cost.blocks],
    )


@dataclass(frozen=True, slots=True)
class Extra:
    """Parameters and MACs per image that a method and auxiliary losses add to the backbone, under the same routes."""

    params: int = 0  # of the method
    removed_params: int = 0  # backbone parameters that the method does not use
    loss_params: int = 0  # of auxiliary losses
    forward: Macs = field(default_factory=Macs)  # without losses
    train_step: int = 0  # with losses


class Work(NamedTuple):
    """Expected MACs of a whole cell, used to place cells and to estimate their duration; never recorded.

    Guided calls count twice; the extraction of features from images is left out.
    """

    training: int
    evaluations: int  # generated images and validation


def expected_work(cell: Cell) -> Work:
    """Estimate the work of a cell."""
    family, spec = cell.backbone.family(), cell.backbone.spec(cell.data)
    sampling, metrics = cell.sampling, cell.metrics
    if cell.is_timed_only:
        return Work(0, 0)
    passes = sampling.sampler_family.num_calls(sampling.steps) * (1 if sampling.guidance_scale == 1 else 2)
    images = metrics.num_samples * passes * cell.generates + metrics.validation_samples * VALIDATION_TIMES
    evaluation = images * cost_of(family, spec, lora=cell.training.lora).forward.total
    if not cell.trains:
        return Work(0, evaluation)
    return Work(training_macs(cell), len(metrics.iterations(cell.training.iterations)) * evaluation)


def cell_cost(cell: Cell) -> CostFigures:
    """Return the costs that a cell's record stores: backbone, method and auxiliary losses."""
    # The backbone with what method and losses add.
    family, spec, lora = cell.backbone.family(), cell.backbone.spec(cell.data), cell.training.lora
    backbone, added = _backbone(cell, 1.0), _added(cell, 1.0)
    params = added.params - added.removed_params
    network = replace(
        backbone,
        params=backbone.params + params,
        trainable_params=backbone.trainable_params + params + added.loss_params,
        outside=backbone.outside + added.forward,
    )

    # Tokens in each block, on average where steps differ.
    blocks, prefix = family.num_blocks(spec), family.num_prefix(spec)
    tokens = []
    for routes in _alternatives(cell, spec, 1.0):
        tokens.append(tokens_per_block(resolve_routes(routes, blocks), blocks, spec.num_tokens, prefix))
    mean_tokens = [round(fmean(counts)) for counts in zip(*tokens, strict=True)]

    # All figures, of which training steps and evaluation have their own.
    figures = figures_of(network, cost_of(family, spec, lora=lora), mean_tokens, spec.num_tokens, prefix)
    is_plain = cell.method.family.is_plain_backbone
    step = mean = backbone.train_step + added.train_step
    if cell.schedule.depends_on_length:
        mean = _mean_train_step(cell, cell.training.iterations)
    return figures.model_copy(
        update={
            "method_params": added.params,
            "auxiliary_params": added.loss_params,
            "frozen_params": 0 if lora is None else backbone.params - backbone.trainable_params,
            "evaluated_forward_macs": figures.dense_forward_macs if is_plain else evaluated_macs(cell).total,
            "train_step_macs": step,
            "mean_train_step_macs": mean,
        }
    )


def training_macs(cell: Cell, until: int | None = None) -> int:
    """Return the MACs of a cell's training over all images, up to iteration `until`; None: of all of it."""
    training = cell.training
    if until == 0:
        return 0
    if until is None or until == training.iterations:
        return _mean_train_step(cell, training.iterations) * training.batch * training.iterations
    return round(_train_steps(cell, until, training.iterations)) * training.batch


def iterations_within(macs: int, cell: Cell) -> tuple[int, int]:
    """Return the number of iterations, from 1 to `MAX_NUMBER`, at which the whole training of a cell costs nearest to
    `macs`, and what it costs then.
    """

    @cache
    def total(iterations: int) -> int:
        return _mean_train_step(cell, iterations) * cell.training.batch * iterations

    # Each iteration adds to the total: the first one with which it reaches `macs`, or the one before.
    reached = min(bisect_left(range(1, MAX_NUMBER), macs, key=total) + 1, MAX_NUMBER)
    found = min(max(1, reached - 1), reached, key=lambda iterations: abs(total(iterations) - macs))
    return found, total(found)


def _backbone(cell: Cell, share: float) -> Cost:
    """The backbone's cost at a share of the rates; the mean where samples or steps differ in what they pass."""
    family, spec, lora = cell.backbone.family(), cell.backbone.spec(cell.data), cell.training.lora
    if cell.method.family.tokens is not Tokens.SKIP_AS_A_WHOLE:
        costs = [cost_of(family, spec, routes, cell.selector, lora) for routes in _alternatives(cell, spec, share)]
        blocks = zip(*(cost.blocks for cost in costs), strict=True)
        return replace(costs[0], blocks=tuple(_times(sum(block, Macs()), 1 / len(costs)) for block in blocks))
    dense = cost_of(family, spec)
    passing = [1.0] * len(dense.blocks)
    for route in resolve_routes(cell.routes, len(dense.blocks)):
        for block in route.blocks:
            passing[block] = 1 - route.rate * share
    return replace(dense, blocks=tuple(_times(block, p) for block, p in zip(dense.blocks, passing, strict=True)))


def _alternatives(cell: Cell, spec: BackboneSpec, share: float) -> list[list[Route]]:
    """The routes between which samples or steps differ, at a share of their rates."""
    alternatives = cell.method.alternatives(cell.routes, spec.num_tokens)
    return [[route.at_share(share) for route in routes] for routes in alternatives]


def _times(macs: Macs, share: float) -> Macs:
    return Macs(*(round(share * count) for count in (macs.linear, macs.attention, macs.scan)))


def _added(cell: Cell, share: float) -> Extra:
    """What the method and the auxiliary losses add in a training step at a share of the rates."""
    if not cell.method.family.has_modules and not cell.auxiliary:
        return Extra()
    return _of_network(Extra, "tread_bench.measure.macs:count_added", cell, share)


def _train_step(cell: Cell, share: float) -> int:
    """The MACs of a training step of one image at a share of the rates."""
    return _added(cell, share).train_step + _backbone(cell, share).train_step


def _mean_train_step(cell: Cell, iterations: int) -> int:
    """The mean MACs of a training step of one image in a training of so many iterations."""
    return round(_train_steps(cell, iterations, iterations) / iterations)


def _train_steps(cell: Cell, until: int, iterations: int) -> float:
    """The MACs of one image in the first `until` steps of a training of so many iterations."""
    schedule, spec = cell.schedule, cell.backbone.spec(cell.data)
    if not schedule.depends_on_length:
        return until * _train_step(cell, 1.0)
    if cell.method.family.tokens is Tokens.SKIP_AS_A_WHOLE:  # which is linear in the share
        return until * _train_step(cell, summed_share(until, iterations, schedule) / until)

    def bypassed(share: float) -> tuple[int, ...]:
        routes = [route for routes in _alternatives(cell, spec, share) for route in routes]
        return tuple(spec.num_tokens - route.kept(spec.num_tokens) for route in routes)

    total, left = 0, until
    for steps, share in stretches(iterations, schedule, bypassed):
        total += min(steps, left) * _train_step(cell, share)
        left -= min(steps, left)
        if not left:
            break
    return total
