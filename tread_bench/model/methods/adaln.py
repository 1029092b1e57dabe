"""Transformer layers that methods add to a backbone, modulated by its conditioning (adaLN-Zero)."""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn.functional as F
from timm.layers import Attention, Mlp
from torch import Tensor, nn

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


class AdaLNBlock(nn.Module):
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


class AdaLNCross(nn.Module):
    """Attention from tokens to others, with normed queries and keys, and an MLP of ratio 1 (adaLN-Zero).

    Both sequences consist of as many groups of equal length, and a token attends to the group of the same number.

    Raises:
        ValueError: `heads` does not divide the width.
    """

    def __init__(self, width: int, heads: int, condition: int | None) -> None:
        super().__init__()
        if width % heads:
            raise ValueError(f"{heads} heads: they must divide the width of the tokens, {width}; choose another number")
        self.heads = heads
        self.norm1, self.norm2 = (nn.LayerNorm(width, elementwise_affine=False, eps=1e-6) for _ in range(2))
        self.query, self.key, self.value, self.proj = (nn.Linear(width, width) for _ in range(4))
        self.query_norm, self.key_norm = (nn.RMSNorm(width // heads, eps=1e-6) for _ in range(2))
        self.mlp = Mlp(width, width, act_layer=lambda: nn.GELU(approximate="tanh"))
        self.modulation = Modulation(width, condition, 2 * SHIFT_SCALE_GATE)

    def forward(self, x_BTD: Tensor, others_BMD: Tensor, c_BD: Tensor | None, groups: int) -> Tensor:
        shift1, scale1, gate1, shift2, scale2, gate2 = self.modulation(c_BD)
        x_BTD = x_BTD + gate1 * self._attend(self.norm1(x_BTD) * (1 + scale1) + shift1, others_BMD, groups)
        return x_BTD + gate2 * self.mlp(self.norm2(x_BTD) * (1 + scale2) + shift2)

    def _attend(self, x_BTD: Tensor, others_BMD: Tensor, groups: int) -> Tensor:
        """Attention within groups, each of which is a sample of its own to it."""

        def by_head(tokens: Tensor) -> Tensor:
            """(B * groups, heads, tokens of a group, width of a head)"""
            return tokens.unflatten(1, (groups, -1)).flatten(0, 1).unflatten(2, (self.heads, -1)).transpose(1, 2)

        q, k, v = by_head(self.query(x_BTD)), by_head(self.key(others_BMD)), by_head(self.value(others_BMD))
        mixed = F.scaled_dot_product_attention(self.query_norm(q).to(v.dtype), self.key_norm(k).to(v.dtype), v)
        return self.proj(mixed.transpose(1, 2).reshape(x_BTD.shape))


class ModulatedLinear(nn.Module):
    """A modulated norm and a linear layer, from one width to another."""

    def __init__(self, width: int, width_out: int, condition: int | None) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.modulation = Modulation(width, condition, SHIFT_SCALE)
        self.linear = nn.Linear(width, width_out)

    def forward(self, x_BTD: Tensor, c_BD: Tensor | None) -> Tensor:
        shift, scale = self.modulation(c_BD)
        return self.linear(self.norm(x_BTD) * (1 + scale) + shift)
