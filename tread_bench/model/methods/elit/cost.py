"""What ELIT adds to a backbone, in closed form."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from tread_bench.core.config.suite import Cell
from tread_bench.core.describe.families import Cost, Macs
from tread_bench.core.describe.plugins import named
from tread_bench.core.numbers.cell_costs import Extra
from tread_bench.model.methods.elit.family import ElitOptions


def elit_cost(cell: Cell, dense: Cost, tokens_behind: Sequence[int]) -> Extra:
    """Return the parameters of reading, writing and the latents, and the mean MACs over the budgets of training.

    Args:
        dense: cost of the backbone; where it does not state its last layer, its widths are those of its network.
        tokens_behind: image tokens after each block; all of them in a step without routing, which keeps all latents.
    """
    options = cell.method
    assert isinstance(options, ElitOptions)
    family, spec = cell.backbone.family(), cell.backbone.spec(cell.data)
    tokens = spec.num_tokens
    if dense.last_layer is not None:
        width, condition = dense.last_layer.width, dense.last_layer.condition
    else:
        width, condition = named("tread_bench.model.methods.base:widths_of")(family, spec)

    # Parameters: two layers of attention and MLP, the modulation of reading, and the latents, which all groups share.
    modulation = 6 * width * (condition + 1) if condition else 0
    in_group = tokens // options.groups**2
    params = 2 * (6 * width * width + 6 * width + 2 * (width // options.heads)) + modulation + in_group * width

    # MACs. Queries, output and MLP are over the tokens that change, keys and values over those that are read.
    latents = float(tokens)
    if min(tokens_behind) < tokens:
        latents = fmean(route.kept(tokens) for (route,) in options.alternatives(cell.routes, tokens))
    linear = 6 * width * width * (latents + tokens) + 6 * width * condition
    attention = 2 * 2 * latents * in_group * width
    forward = Macs(linear=round(linear), attention=round(attention))
    return Extra(params, 0, forward, 3 * forward.total)
