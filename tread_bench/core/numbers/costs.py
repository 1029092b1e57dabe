"""Parameters and MACs of a backbone, dense or routed, in closed form if its family states one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from tread_bench.core.config.routed import Setting
from tread_bench.core.config.sampling import calls
from tread_bench.core.config.training import Lora
from tread_bench.core.describe.branches import Branch
from tread_bench.core.describe.families import BackboneSpec, Cost, Family, Macs, families
from tread_bench.core.describe.plugins import named
from tread_bench.core.describe.routes import Route, RoutesLike, as_routes, resolve_routes, tokens_per_block
from tread_bench.core.stored.records import CostFigures


def cost_of(
    family: Family, spec: BackboneSpec, routes: RoutesLike = (), selector: str = "random", lora: Lora | None = None
) -> Cost:
    """Return the family's cost in closed form, or count it if the family states none.

    Args:
        lora: its adapters, which alone are trained; a network with adapters is counted.
    """
    if lora is not None:
        return _with_adapters(family.name, spec, as_routes(routes), selector, lora)
    if family.cost is None:
        return named("tread_bench.measure.macs:count_cost")(family, spec, routes, selector)
    blocks = family.num_blocks(spec)
    resolved = resolve_routes(routes, blocks)
    return family.cost(spec, tokens_per_block(resolved, blocks, spec.num_tokens, family.num_prefix(spec)))


@cache
def _with_adapters(family: str, spec: BackboneSpec, routes: tuple[Route, ...], selector: str, lora: Lora) -> Cost:
    cost: Cost = named("tread_bench.measure.macs:count_cost")(families()[family], spec, routes, selector, lora)
    return cost


def branch_cost(setting: Setting, branch: Branch, step: int = 0, steps: int = 1) -> Macs:
    """Return the MACs of one image's forward pass in a guidance branch, at one sampling step."""
    cell, family, spec = setting
    if not cell.method.family.is_plain_backbone:
        return named("tread_bench.measure.macs:count_evaluated")(cell, family, spec, shallow=branch.drops_path)
    cost = cost_of(family, spec, branch.routes_at(step, steps), cell.selector, cell.training.lora)
    return sum((block for n, block in enumerate(cost.blocks) if n not in branch.dropped_blocks), cost.outside)


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
