"""MaskDiT (Zheng et al., TMLR 2024, arXiv 2306.09305): an encoder that sees the kept tokens only, and a small decoder.

Tokens are dropped for all blocks of the backbone. Behind them a modulated linear layer, mask tokens where tokens were
dropped, fixed positions, and a decoder of adaLN-Zero blocks; the backbone's own last layer makes the image. The loss is
the objective's on kept tokens, and `mae.Mae` on the others. Judged with all tokens, through the decoder.

Published: a decoder of 8 blocks, 16 heads and width 512; here it is as wide as the backbone, whose last layer it feeds.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from timm.layers import Attention, Mlp
from torch import Tensor, nn

from tread_bench.backbone import Backbone, OnBlock, TokenState, checkpointed, come_back, leave
from tread_bench.config import Cell, MaskMethod
from tread_bench.methods.auxiliary import Auxiliary
from tread_bench.methods.base import Method, Prediction, Rows, first_state, init_linear, run_range
from tread_bench.methods.mae import Mae
from tread_bench.methods.masking import MaskToken
from tread_bench.ops.patching import sincos_positions
from tread_bench.ops.routing import scatter_tokens

SHIFT_SCALE, SHIFT_SCALE_GATE = (0.0, 0.0), (0.0, 0.0, 1.0)  # where nothing is modulated


class Modulation(nn.Module):
    """Shifts, scales and gates (B, 1, D) from the conditioning; `neutral` where a backbone has it in its tokens."""

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


class DecoderInput(nn.Module):
    """A modulated norm and a linear layer between encoder and decoder."""

    def __init__(self, width: int, condition: int | None) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.modulation = Modulation(width, condition, SHIFT_SCALE)
        self.linear = nn.Linear(width, width)

    def forward(self, x_BTD: Tensor, c_BD: Tensor | None) -> Tensor:
        shift, scale = self.modulation(c_BD)
        return self.linear(self.norm(x_BTD) * (1 + scale) + shift)


class Mask(Method):
    """One route over all blocks."""

    positions: Tensor  # (N, D)

    def __init__(self, cell: Cell, backbone: Backbone) -> None:
        super().__init__(cell, backbone)
        assert isinstance(cell.method, MaskMethod)
        config, state = cell.method, first_state(backbone)
        width, condition = state.stream().shape[2], None if state.c is None else state.c.shape[1]
        self.patch, self.mae_weight = backbone.spec.patch, config.mae_weight
        self.decoder_input = DecoderInput(width, condition)
        self.mask_token = MaskToken(width)
        self.register_buffer("positions", sincos_positions(width, backbone.spec.grid), persistent=False)
        self.decoder = nn.ModuleList(
            DecoderBlock(width, config.decoder_heads, condition) for _ in range(config.decoder_depth)
        )

    def init_module(self, name: str, module: nn.Module) -> None:
        """As released: Xavier linears, zeros where modulation and the decoder's input come from."""
        init_linear(module)
        if isinstance(module, nn.Linear) and ("modulation" in name or name == "decoder_input.linear"):
            nn.init.zeros_(module.weight)

    def auxiliaries(self) -> Sequence[Auxiliary]:
        return [Mae(self.mae_weight, [1.0], self.patch)] if self.mae_weight else []

    def predict(
        self,
        backbone: Backbone,
        x: Tensor,
        t: Tensor,
        y: Tensor | None,
        rows: Rows,
        on_block: OnBlock | None = None,
    ) -> Prediction:
        kept = self.draw(backbone, rows, x.device)
        state = backbone.start(x, t, y)
        if not kept:
            return Prediction(self._decode(backbone, state, on_block))
        output = self._decode(backbone, leave(state, kept[0]), on_block)
        return Prediction(output, kept, self._pixels(kept[0], state.grid))

    def judge(
        self, backbone: Backbone, x: Tensor, t: Tensor, y: Tensor | None, on_block: OnBlock | None = None
    ) -> Tensor:
        return self._decode(backbone, backbone.start(x, t, y), on_block)

    def _decode(self, backbone: Backbone, state: TokenState, on_block: OnBlock | None) -> Tensor:
        """The image, from the state before the first block."""
        state = run_range(backbone, state, range(backbone.num_blocks), on_block)
        x = self.decoder_input(state.stream(), state.c)
        if state.positions is not None:
            whole = come_back(state)
            x = scatter_tokens(self.mask_token.like(whole.stream()), x, state.positions)
            state = whole
        prefix, image = x[:, : state.num_prefix], x[:, state.num_prefix :]
        x = torch.cat([prefix, image + self.positions], dim=1)
        for block in self.decoder:
            x = checkpointed(backbone, block, x, state.c)
        return backbone.finish(state.with_stream(x))

    def _pixels(self, kept_BK: Tensor, grid: tuple[int, int]) -> Tensor:
        """1 where a pixel belongs to a kept token, else 0: (B, 1, H, W)."""
        tokens = self.positions.new_zeros(len(kept_BK), len(self.positions)).scatter(1, kept_BK, 1.0)
        return tokens.view(-1, 1, *grid).repeat_interleave(self.patch, 2).repeat_interleave(self.patch, 3)
