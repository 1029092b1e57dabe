"""What MaskDiT adds to a backbone, in closed form."""

from __future__ import annotations

from collections.abc import Sequence

from tread_bench.core.config.suite import Cell
from tread_bench.core.describe.families import Cost, Macs
from tread_bench.core.numbers.cell_costs import Extra
from tread_bench.model.methods.mask.family import MaskOptions


def mask_cost(cell: Cell, dense: Cost, tokens_behind: Sequence[int]) -> Extra | None:
    """Return the parameters and MACs of the decoder, less those of the backbone's last layer, which it replaces.

    Args:
        dense: cost of the backbone; None is returned where it does not state its last layer.
        tokens_behind: image tokens after each block.
    """
    options, removed = cell.method, dense.last_layer
    assert isinstance(options, MaskOptions)
    if removed is None:
        return None
    family, spec = cell.backbone.family(), cell.backbone.spec(cell.data)
    width, condition, prefix = options.decoder_width, removed.condition, family.num_prefix(spec)
    tokens, patch = prefix + spec.num_tokens, spec.patch_values * (2 if cell.objective.reads_variance else 1)

    def modulation_params(outputs: int) -> int:
        return outputs * (condition + 1) if condition else 0

    # Parameters: into the decoder, the mask token, the decoder's blocks, and to patches.
    block_params = 12 * width * width + 9 * width + modulation_params(6 * width)
    params = (
        (removed.width + 1) * width
        + modulation_params(2 * removed.width)
        + width
        + options.decoder_depth * block_params
        + (width + 1) * patch
        + modulation_params(2 * width)
    )

    # MACs: of the tokens that pass into the decoder, of all tokens in its blocks, of image tokens to patches.
    linear = (
        (prefix + tokens_behind[-1]) * removed.width * width
        + options.decoder_depth * (tokens * 12 * width * width + 6 * width * condition)
        + spec.num_tokens * width * patch
        + 2 * (removed.width + width) * condition
        - removed.macs
    )
    forward = Macs(linear=linear, attention=options.decoder_depth * 2 * tokens * tokens * width)
    return Extra(params, removed.params, forward, 3 * forward.total)
