"""MaskDiT (Zheng et al., TMLR 2024, arXiv 2306.09305): an encoder that sees only the kept tokens, and a small decoder.

Tokens are dropped for all blocks of the backbone. Then follow a modulated linear layer to the decoder's width, mask
tokens in place of the dropped ones, fixed positions, a decoder of adaLN-Zero blocks, and its own last layer instead of
the backbone's. The loss is the objective's on kept tokens, and `mae.Mae` on the others. Evaluation uses all tokens and
the decoder. By default the decoder is the published one for every backbone: width 512, 8 blocks, 16 heads.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from timm.layers import Attention, Mlp
from torch import Tensor, nn

from tread_bench.core.config.suite import Cell
from tread_bench.model.backbone import Backbone, OnBlock, TokenState, checkpointed, leave
from tread_bench.model.losses.auxiliary import Auxiliary
from tread_bench.model.losses.mae.network import Mae
from tread_bench.model.methods.base import BatchRange, Method, first_state, init_linear, run_range
from tread_bench.model.methods.mask.family import MaskOptions
from tread_bench.model.methods.masking import MaskToken
from tread_bench.model.ops.patching import sincos_positions, unpatchify
from tread_bench.model.ops.routing import scatter_tokens
from tread_bench.model.prediction import Prediction

SHIFT_SCALE = (0.0, 0.0)  # values without modulation
SHIFT_SCALE_GATE = (0.0, 0.0, 1.0)


class Modulation(nn.Module):
    """Shifts, scales and gates (B, 1, D) from the conditioning; `neutral` if a backbone has it in its tokens."""

    def __init__(self, width: int, condition: int | None, neutral: Sequence[float]) -> None:
        super().__init__()
        self.neutral = neutral
        self.linear = nn.Linear(condition, len(neutral) * width) if condition is not None else None

    def forward(self, c_BD: Tensor | None) -> Sequence[Tensor | float]:
        if self.linear is None or c_BD is None:
            return self.neutral
        return self.linear(F.silu(c_BD)).unsqueeze(1).chunk(len(self.neutral), dim=2)


class DecoderBlock(nn.Module):
    """Attention and MLP, each shifted, scaled and gated by the conditioning (adaLN-Zero)."""

    def __init__(self, width: int, heads: int, condition: int | None) -> None:
        super().__init__()
        self.norm1, self.norm2 = (nn.LayerNorm(width, elementwise_affine=False, eps=1e-6) for _ in range(2))
        self.attn = Attention(width, num_heads=heads, qkv_bias=True)
        self.mlp = Mlp(width, 4 * width, act_layer=lambda: nn.GELU(approximate="tanh"))
        self.modulation = Modulation(width, condition, 2 * SHIFT_SCALE_GATE)

    def forward(self, x_BTD: Tensor, c_BD: Tensor | None) -> Tensor:
        shift1, scale1, gate1, shift2, scale2, gate2 = self.modulation(c_BD)
        x_BTD = x_BTD + gate1 * self.attn(self.norm1(x_BTD) * (1 + scale1) + shift1)
        return x_BTD + gate2 * self.mlp(self.norm2(x_BTD) * (1 + scale2) + shift2)


class ModulatedLinear(nn.Module):
    """A modulated norm and a linear layer, used from encoder to decoder and from decoder to patches."""

    def __init__(self, width: int, width_out: int, condition: int | None) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.modulation = Modulation(width, condition, SHIFT_SCALE)
        self.linear = nn.Linear(width, width_out)

    def forward(self, x_BTD: Tensor, c_BD: Tensor | None) -> Tensor:
        shift, scale = self.modulation(c_BD)
        return self.linear(self.norm(x_BTD) * (1 + scale) + shift)


class Mask(Method):
    """MaskDiT with one route over all blocks."""

    has_last_layer = True
    positions: Tensor  # (N, W), the decoder's width

    def __init__(self, cell: Cell, backbone: Backbone) -> None:
        super().__init__(cell, backbone)
        assert isinstance(cell.method, MaskOptions)
        config = cell.method
        spec = backbone.spec
        state = first_state(backbone)
        width = config.decoder_width
        condition = None if state.c is None else state.c.shape[1]

        self.patch = spec.patch
        self.mae_weight = config.mae_weight
        self.decoder_input = ModulatedLinear(state.stream().shape[2], width, condition)
        self.mask_token = MaskToken(width)
        self.register_buffer("positions", sincos_positions(width, spec.grid), persistent=False)
        self.decoder = nn.ModuleList(
            DecoderBlock(width, config.decoder_heads, condition) for _ in range(config.decoder_depth)
        )
        self.last_layer = ModulatedLinear(width, spec.patch**2 * backbone.out_channels, condition)

    def init_module(self, name: str, module: nn.Module) -> None:
        """Initialise as released: Xavier linears, zeros for modulation, the decoder's input and the output layer."""
        init_linear(module)
        if isinstance(module, nn.Linear) and ("modulation" in name or not name.startswith("decoder.")):
            nn.init.zeros_(module.weight)

    def auxiliaries(self) -> Sequence[Auxiliary]:
        return [Mae(self.mae_weight, [1.0], self.patch)] if self.mae_weight else []

    def train_forward(
        self, backbone: Backbone, start: TokenState, batch_range: BatchRange, on_block: OnBlock | None = None
    ) -> Prediction:
        kept = self.draw(backbone, batch_range, start.device)
        if not kept:
            return Prediction(self._decode(backbone, start, on_block))
        output = self._decode(backbone, leave(start, kept[0]), on_block)
        return Prediction(output, kept, self._pixels(kept[0], start.grid))

    def eval_forward(self, backbone: Backbone, start: TokenState, on_block: OnBlock | None = None) -> Tensor:
        return self._decode(backbone, start, on_block)

    def _decode(self, backbone: Backbone, state: TokenState, on_block: OnBlock | None) -> Tensor:
        """The image, computed from the state before the first block."""
        # Encode the tokens present.
        state = run_range(backbone, state, range(backbone.num_blocks), on_block)
        x = self.decoder_input(state.stream(), state.c)

        # Put mask tokens in place of dropped ones, and add positions to all.
        if state.positions is not None:
            mask_tokens = self.mask_token.in_places(x, state.num_prefix + len(self.positions))
            x = scatter_tokens(mask_tokens, x, state.positions)
        prefix = x[:, : state.num_prefix]
        image = x[:, state.num_prefix :]
        x = torch.cat([prefix, image + self.positions], dim=1)

        # Decode all tokens to the image.
        for block in self.decoder:
            x = checkpointed(backbone, block, x, state.c)
        patches = self.last_layer(x[:, state.num_prefix :], state.c)
        return unpatchify(patches, state.grid, self.patch)

    def _pixels(self, kept_BK: Tensor, grid: tuple[int, int]) -> Tensor:
        """1 for pixels of kept tokens, else 0: (B, 1, H, W)."""
        kept_BN = self.positions.new_zeros(len(kept_BK), len(self.positions)).scatter(1, kept_BK, 1.0)
        return kept_BN.view(-1, 1, *grid).repeat_interleave(self.patch, 2).repeat_interleave(self.patch, 3)
