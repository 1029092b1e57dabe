"""What a backbone weighs and costs, dense or routed: by its family's closed form, where it states one."""

from __future__ import annotations

from collections.abc import Sequence

from tread_bench.records import CostFigures
from tread_bench.registry import BackboneSpec, Cost, Family
from tread_bench.routes import Route, tokens_per_block


def cost_of(family: Family, spec: BackboneSpec, routes: Sequence[Route] = (), selector: str = "random") -> Cost:
    """The closed form where the family states one, else counted."""
    if family.cost is None:
        from tread_bench.measure.macs import count_cost  # needs torch

        return count_cost(family, spec, routes, selector)
    tokens = tokens_per_block(routes, family.num_blocks(spec), spec.num_tokens, family.num_prefix(spec))
    return family.cost(spec, tokens)


def cost_figures(
    family: Family, spec: BackboneSpec, routes: Sequence[Route] = (), selector: str = "random"
) -> CostFigures:
    """What a record keeps; `routes` in any form."""
    routes = family.resolve(spec, routes, selector)
    cost, dense = cost_of(family, spec, routes, selector), cost_of(family, spec)
    prefix = family.num_prefix(spec)
    return CostFigures(
        params=cost.params,
        trainable_params=cost.trainable_params,
        tokens_per_block=tokens_per_block(routes, family.num_blocks(spec), spec.num_tokens, prefix),
        dense_tokens=prefix + spec.num_tokens,
        forward_macs=cost.forward.total,
        dense_forward_macs=dense.forward.total,
        attention_macs=cost.forward.attention,
        scan_macs=cost.forward.scan,
        train_step_macs=cost.train_step,
        block_macs=[block.total for block in cost.blocks],
    )
