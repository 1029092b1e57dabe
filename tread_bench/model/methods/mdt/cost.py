"""What MDT adds to a backbone, in closed form."""

from __future__ import annotations

from collections.abc import Sequence

from tread_bench.core.config.suite import Cell
from tread_bench.core.describe.families import Cost, Macs
from tread_bench.core.numbers.cell_costs import Extra


def mdt_cost(cell: Cell, dense: Cost, tokens_behind: Sequence[int]) -> Extra | None:
    """Return the parameters of the side-interpolater, and MACs of it and of the pass over all tokens.

    Both passes share what comes before the blocks.

    Args:
        dense: cost of the backbone; None is returned where it does not state its last layer.
        tokens_behind: image tokens after each block; all of them where nothing is masked: then there is one pass.
    """
    if dense.last_layer is None:
        return None
    family, spec = cell.backbone.family(), cell.backbone.spec(cell.data)
    width, condition = dense.last_layer.width, dense.last_layer.condition
    modulation = 6 * width * (condition + 1) if condition else 0
    params = 12 * width * width + 9 * width + modulation + width + spec.num_tokens * width
    if tokens_behind[0] == spec.num_tokens:
        return Extra(params)
    tokens = family.num_prefix(spec) + spec.num_tokens
    interpolater = Macs(
        linear=tokens * 12 * width * width + 6 * width * condition, attention=2 * tokens * tokens * width
    )
    forward = sum(dense.blocks, interpolater + Macs(linear=dense.last_layer.macs))
    return Extra(params, 0, forward, 3 * forward.total)
