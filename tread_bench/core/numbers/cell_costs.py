"""Parameters and MACs of a cell's network: backbone, method and auxiliary losses, averaged over its schedule."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from statistics import fmean
from typing import NamedTuple

from tread_bench.core.config.base import MAX_NUMBER
from tread_bench.core.config.suite import Cell
from tread_bench.core.config.training import RoutingSchedule
from tread_bench.core.describe.families import BackboneSpec, Cost, Family, Macs
from tread_bench.core.describe.methods import Tokens
from tread_bench.core.describe.routes import Route, resolve_routes, tokens_per_block
from tread_bench.core.numbers.costs import cost_figures, cost_of, counted, evaluated_macs, network_of, parts_of
from tread_bench.core.numbers.schedule import stretches, summed_share
from tread_bench.core.stored.records import CostFigures

VALIDATION_TIMES = 8  # noise levels of each objective's validation loss


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
    calls = sampling.sampler_family.num_calls(sampling.steps) * (1 if sampling.guidance_scale == 1 else 2)
    images = metrics.num_samples * calls * cell.generates + metrics.validation_samples * VALIDATION_TIMES
    evaluation = images * cost_of(family, spec, lora=cell.training.lora).forward.total
    if not cell.trains:
        return Work(0, evaluation)
    return Work(training_macs(cell), len(metrics.iterations(cell.training.iterations)) * evaluation)


def cell_cost(cell: Cell) -> CostFigures:
    """Return the costs that a cell's record stores: backbone, method and auxiliary losses."""
    # What the backbone costs, and what method and losses add.
    family, spec = cell.backbone.family(), cell.backbone.spec(cell.data)
    figures = cost_figures(family, spec, cell.routes, cell.selector, cell.training.lora)
    routed = _backbone(cell, family, spec, 1.0)
    added = _added(cell, 1.0)

    # Tokens in each block, on average where steps differ.
    blocks, prefix = family.num_blocks(spec), family.num_prefix(spec)
    tokens = []
    for routes in _alternatives(cell, spec, 1.0):
        tokens.append(tokens_per_block(resolve_routes(routes, blocks), blocks, spec.num_tokens, prefix))

    # Both together.
    forward = routed.forward + added.forward
    is_plain = cell.method.family.is_plain_backbone
    step = routed.train_step + added.train_step
    return figures.model_copy(
        update={
            "params": figures.params - added.removed_params + added.params,
            "trainable_params": figures.trainable_params - added.removed_params + added.params + added.loss_params,
            "method_params": added.params,
            "auxiliary_params": added.loss_params,
            "tokens_per_block": [round(fmean(counts)) for counts in zip(*tokens, strict=True)],
            "forward_macs": forward.total,
            "attention_macs": forward.attention,
            "scan_macs": forward.scan,
            "block_macs": [block.total for block in routed.blocks],
            "evaluated_forward_macs": figures.dense_forward_macs if is_plain else evaluated_macs(cell).total,
            "train_step_macs": step,
            "mean_train_step_macs": _mean_train_step(cell)(cell.training.iterations) if _is_scheduled(cell) else step,
        }
    )


def training_macs(cell: Cell, until: int | None = None) -> int:
    """Return the MACs of a cell's training over all images, up to iteration `until`; None: of all of it."""
    training = cell.training
    if until == 0:
        return 0
    if until is None or until == training.iterations:
        return _mean_train_step(cell)(training.iterations) * training.batch * training.iterations
    return round(_train_steps(cell)(until, training.iterations)) * training.batch


def iterations_within(macs: int, cell: Cell) -> tuple[int, int]:
    """Return the number of iterations, from 1 to `MAX_NUMBER`, at which the whole training of a cell costs nearest to
    `macs`, and what it costs then.
    """
    mean_step = _mean_train_step(cell)

    @cache
    def total(iterations: int) -> int:
        return mean_step(iterations) * cell.training.batch * iterations

    # Each iteration adds to the total: the first one with which it reaches `macs`, or the one before.
    reached = min(bisect_left(range(1, MAX_NUMBER), macs, key=total) + 1, MAX_NUMBER)
    found = min(max(1, reached - 1), reached, key=lambda iterations: abs(total(iterations) - macs))
    return found, total(found)


def _is_scheduled(cell: Cell) -> bool:
    """Whether the routes' rates change over the training."""
    return cell.schedule != RoutingSchedule()


def _backbone(cell: Cell, family: Family, spec: BackboneSpec, share: float) -> Cost:
    """The backbone's cost at a share of the rates; the mean where samples or steps differ in what they pass."""
    if cell.method.family.tokens is not Tokens.SKIP_AS_A_WHOLE:
        lora = cell.training.lora
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
    target, about = "tread_bench.measure.macs:count_added", f"{network_of(cell)} {share!r}"
    return counted(Extra, target, about, parts_of(cell), cell, share)


def _mean_train_step(cell: Cell) -> Callable[[int], int]:
    """Return the mean MACs of a training step of one image, as a function of the number of iterations."""
    steps = _train_steps(cell)
    return lambda iterations: round(steps(iterations, iterations) / iterations)


def _train_steps(cell: Cell) -> Callable[[int, int], float]:
    """Return the MACs of one image in the first `until` of so many training steps, as a function of both."""
    family, spec = cell.backbone.family(), cell.backbone.spec(cell.data)

    def at(share: float) -> int:
        return _added(cell, share).train_step + _backbone(cell, family, spec, share).train_step

    if not _is_scheduled(cell):
        step = at(1.0)
        return lambda until, iterations: until * step

    def bypassed(share: float) -> tuple[int, ...]:
        routes = [route for routes in _alternatives(cell, spec, share) for route in routes]
        return tuple(spec.num_tokens - route.kept(spec.num_tokens) for route in routes)

    def summed(until: int, iterations: int) -> float:
        if cell.method.family.tokens is Tokens.SKIP_AS_A_WHOLE:
            return until * at(summed_share(until, iterations, cell.schedule) / until)  # linear in the share
        total, left = 0, until
        for steps, share in stretches(iterations, cell.schedule, bypassed):
            total += min(steps, left) * at(share)
            left -= min(steps, left)
            if not left:
                break
        return total

    return summed
