"""MaskDiT (Zheng et al., TMLR 2024, arXiv 2306.09305): an encoder that sees only the kept tokens, and a small decoder.

Tokens are dropped for all blocks of the backbone. Then follow a modulated linear layer to the decoder's width, mask
tokens in place of the dropped ones, fixed positions, a decoder of adaLN-Zero blocks, and its own last layer instead of
the backbone's. The loss is the objective's on kept tokens, and `mae.Mae` on the others. Evaluation uses all tokens and
the decoder. By default the decoder is the published one for every backbone: width 512, 8 blocks, 16 heads.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from tread_bench.core.config.suite import Cell
from tread_bench.model.backbone import Backbone, OnBlock, TokenState, checkpointed, leave
from tread_bench.model.losses.mae.network import Mae
from tread_bench.model.methods.adaln import AdaLNBlock, ModulatedLinear
from tread_bench.model.methods.base import Auxiliary, BatchRange, Method, Prediction, run_range, widths
from tread_bench.model.methods.mask.family import MaskOptions
from tread_bench.model.methods.masking import MaskToken, kept_pixels
from tread_bench.model.ops.patching import sincos_positions, unpatchify
from tread_bench.model.ops.routing import scatter_tokens


class Mask(Method):
    """MaskDiT with one route over all blocks."""

    has_last_layer = True
    starts_at_zero = ("modulation", "decoder_input", "last_layer")  # as released
    positions: Tensor  # (N, W), the decoder's width

    def __init__(self, cell: Cell, backbone: Backbone) -> None:
        super().__init__(cell, backbone)
        assert isinstance(cell.method, MaskOptions)
        config = cell.method
        spec = backbone.spec
        width = config.decoder_width
        encoded, condition = widths(backbone)
        self.patch = spec.patch
        self.mae_weight = config.mae_weight
        self.decoder_input = ModulatedLinear(encoded, width, condition)
        self.mask_token = MaskToken(width)
        self.register_buffer("positions", sincos_positions(width, spec.grid), persistent=False)
        self.decoder = nn.ModuleList(
            AdaLNBlock(width, config.decoder_heads, condition) for _ in range(config.decoder_depth)
        )
        self.last_layer = ModulatedLinear(width, spec.patch**2 * backbone.out_channels, condition)

    def auxiliaries(self) -> Sequence[Auxiliary]:
        return [Mae(self.mae_weight, [1.0], self.patch)] if self.mae_weight else []

    def train_forward(
        self, backbone: Backbone, start: TokenState, batch_range: BatchRange, on_block: OnBlock | None = None
    ) -> Prediction:
        kept = self.draw(backbone, batch_range, start.device)
        if not kept:
            return Prediction(self._decode(backbone, start, on_block))
        output = self._decode(backbone, leave(start, kept[0]), on_block)
        return Prediction(output, kept, kept_pixels(kept[0], start.grid, self.patch))

    def eval_forward(self, backbone: Backbone, start: TokenState, on_block: OnBlock | None = None) -> Tensor:
        return self._decode(backbone, start, on_block)

    def _decode(self, backbone: Backbone, state: TokenState, on_block: OnBlock | None) -> Tensor:
        """The image, computed from the state before the first block."""
        # Encode the tokens present.
        state = run_range(backbone, state, range(backbone.num_blocks), on_block)
        x = self.decoder_input(state.stream(), state.c)

        # Put mask tokens in place of dropped ones, and add positions to all.
        if state.positions is not None:
            mask_tokens = self.mask_token.like(x, state.num_prefix + len(self.positions))
            x = scatter_tokens(mask_tokens, x, state.positions)
        prefix = x[:, : state.num_prefix]
        image = x[:, state.num_prefix :]
        x = torch.cat([prefix, image + self.positions], dim=1)

        # Decode all tokens to the image.
        for block in self.decoder:
            x = checkpointed(backbone, block, x, state.c)
        patches = self.last_layer(x[:, state.num_prefix :], state.c)
        return unpatchify(patches, state.grid, self.patch)
