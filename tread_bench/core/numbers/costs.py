"""Parameters and MACs of a backbone, dense or routed, as counted with torch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from tread_bench.core.config.routed import Setting
from tread_bench.core.config.sampling import calls
from tread_bench.core.config.suite import Cell
from tread_bench.core.config.training import Lora
from tread_bench.core.describe.families import BackboneSpec, Cost, Family, Macs
from tread_bench.core.describe.guidance import Branch
from tread_bench.core.describe.mixers import mixers
from tread_bench.core.describe.plugins import Description
from tread_bench.core.describe.routes import (
    RoutesLike,
    as_routes,
    format_routes,
    resolve_routes,
    tokens_per_block,
)
from tread_bench.core.describe.selectors import find_selector
from tread_bench.core.numbers.counts import Counts, counted
from tread_bench.core.stored.records import CostFigures


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
        target = "tread_bench.measure.macs:count_cost"
        about = f"{_written(family, spec, lora)} {format_routes(routes)} {selector}"
        plugins = (family, *mixers().values())
        return counted(Cost, target, about, plugins, family, spec, routes, selector, lora)
    blocks = family.num_blocks(spec)
    tokens = tokens_per_block(resolve_routes(routes, blocks), blocks, spec.num_tokens)
    return counts.cost([spec.num_tokens - kept for kept in tokens])


@cache
def counts_of(family: Family, spec: BackboneSpec, lora: Lora | None = None) -> Counts | None:
    """Return the counts from which the cost of any route follows; None: a block's MACs are not quadratic in tokens."""
    target, about = "tread_bench.measure.macs:count_backbone", _written(family, spec, lora)
    plugins = (family, *mixers().values())
    return counted(Counts | None, target, about, plugins, family, spec, lora)  # type: ignore[arg-type]


def num_parameters(family: Family, spec: BackboneSpec) -> int:
    """Return the number of parameters of a backbone, for which it is built and not run."""
    target, about = "tread_bench.measure.macs:count_parameters", _written(family, spec, None)
    return counted(int, target, about, (family, *mixers().values()), family, spec)


def _written(family: Family, spec: BackboneSpec, lora: Lora | None) -> str:
    adapters = "" if lora is None else lora.model_dump_json()
    return f"{family.builder} {spec.model_dump_json()} {adapters}"


def branch_cost(setting: Setting, branch: Branch, step: int = 0, steps: int = 1) -> Macs:
    """Return the MACs of one image's forward pass in a guidance branch, at one sampling step."""
    cell, family, spec = setting
    if not cell.method.family.is_plain_backbone:
        return evaluated_macs(cell, branch.drops_path)
    cost = cost_of(family, spec, branch.routes_at(step, steps), cell.selector, cell.training.lora)
    return sum((block for n, block in enumerate(cost.blocks) if n not in branch.dropped_blocks), cost.outside)


def evaluated_macs(cell: Cell, is_shallow: bool = False) -> Macs:
    """Return the MACs of one image's forward pass as the method is evaluated, or along its shallow path."""
    target, about = "tread_bench.measure.macs:count_evaluated", f"{network_of(cell)} {is_shallow}"
    return counted(Macs, target, about, parts_of(cell), cell, is_shallow)


def network_of(cell: Cell) -> str:
    """Return what the cost of a cell's network follows from, as JSON: its configuration and its sizes."""
    kept = {"backbone", "data", "method", "routes", "selector", "objective", "auxiliary"}
    requested = cell.model_dump_json(include={**dict.fromkeys(kept, True), "training": {"batch"}})
    return f"{requested} {cell.backbone.spec(cell.data).model_dump_json()}"


def parts_of(cell: Cell) -> list[Description]:
    """Return the plug-ins that a cell's network consists of."""
    losses = (loss.family for loss in cell.auxiliary)
    selector = find_selector(cell.selector)
    return [cell.backbone.family(), cell.method.family, selector, *losses, *mixers().values()]


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


def cost_figures(
    family: Family, spec: BackboneSpec, routes: RoutesLike = (), selector: str = "random", lora: Lora | None = None
) -> CostFigures:
    """Return the costs that a record stores."""
    resolved = family.resolve(spec, routes, selector)
    cost, dense = cost_of(family, spec, resolved, selector, lora), cost_of(family, spec, lora=lora)
    prefix = family.num_prefix(spec)
    tokens = tokens_per_block(resolved, family.num_blocks(spec), spec.num_tokens, prefix)
    frozen = 0 if lora is None else cost.params - cost.trainable_params
    figures = figures_of(cost, dense, tokens, prefix + spec.num_tokens)
    return figures.model_copy(update={"prefix_tokens": prefix, "frozen_params": frozen})


def figures_of(cost: Cost, dense: Cost, tokens: list[int], dense_tokens: int) -> CostFigures:
    """Return the costs that a record stores, of a routed network and the dense one."""
    return CostFigures(
        params=cost.params,
        trainable_params=cost.trainable_params,
        tokens_per_block=tokens,
        dense_tokens=dense_tokens,
        forward_macs=cost.forward.total,
        dense_forward_macs=dense.forward.total,
        attention_macs=cost.forward.attention,
        scan_macs=cost.forward.scan,
        train_step_macs=cost.train_step,
        block_macs=[block.total for block in cost.blocks],
    )
