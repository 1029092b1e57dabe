"""LightningDiT (Yao et al., "Reconstruction vs. Generation", CVPR 2025): DiT with RoPE, SwiGLU and RMSNorm.

Parameter names match the authors' release, so its weights load. Its time runs from noise to data, so convert the
weights with `tread_bench.backbones.released.reversed_time` before loading them.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from timm.layers import AttentionRope, build_rotary_pos_embed
from torch import Tensor, nn
from torch.nn.functional import silu

from tread_bench.backbones.dit.network import DiT, FinalLayer, modulate, text_attention
from tread_bench.backbones.lightningdit.family import LightningDiTSpec
from tread_bench.model.backbone import TokenState


class SwiGLU(nn.Module):
    """Computes w3(silu(a) b), where [a, b] = w12(x)."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.w12 = nn.Linear(width, 2 * hidden)
        self.w3 = nn.Linear(hidden, width)

    def forward(self, x_BND: Tensor) -> Tensor:
        gate, value = self.w12(x_BND).chunk(2, dim=-1)
        return self.w3(silu(gate) * value)


class RotaryBlock(nn.Module):
    """DiT's block with gains in its norms, a gated MLP, and queries and keys rotated by their grid position."""

    def __init__(self, spec: LightningDiTSpec, fused_attention: bool) -> None:
        super().__init__()
        width = spec.hidden
        self.norm1 = nn.RMSNorm(width, eps=1e-6)
        self.attn = AttentionRope(width, num_heads=spec.heads, qkv_bias=True, num_prefix_tokens=0)
        self.attn.fused_attn = fused_attention
        self.cross_attn = text_attention(spec, fused_attention)
        self.norm2 = nn.RMSNorm(width, eps=1e-6)
        self.mlp = SwiGLU(width, spec.swiglu_hidden)
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))

    def forward(self, x_BND: Tensor, c_BD: Tensor, rope: Tensor, context_BMD: Tensor | None = None) -> Tensor:
        shift1, scale1, gate1, shift2, scale2, gate2 = self.adaLN_modulation(c_BD).chunk(6, dim=1)
        x_BND = x_BND + gate1.unsqueeze(1) * self.attn(modulate(self.norm1(x_BND), shift1, scale1), rope)
        if self.cross_attn is not None:
            x_BND = x_BND + self.cross_attn(x_BND, context_BMD)
        return x_BND + gate2.unsqueeze(1) * self.mlp(modulate(self.norm2(x_BND), shift2, scale2))


class RMSFinalLayer(FinalLayer):
    """DiT's last layer after a norm with a gain."""

    def __init__(self, spec: LightningDiTSpec) -> None:
        super().__init__(spec)
        self.norm_final = nn.RMSNorm(spec.hidden, eps=1e-6)


class LightningDiT(DiT):
    """Positions are added to the tokens and also rotate queries and keys, so a route gathers its rows of the table."""

    spec: LightningDiTSpec
    rope: Tensor
    final_layer_type = RMSFinalLayer

    def __init__(self, spec: LightningDiTSpec, kernels: Mapping[str, str]) -> None:
        super().__init__(spec, kernels)
        sines_cosines = build_rotary_pos_embed(list(spec.grid), dim=spec.hidden // spec.heads, in_pixels=False)
        self.register_buffer("rope", torch.cat(sines_cosines, dim=-1), persistent=False)  # (N, 2 D / heads)

    def block_type(self, kernel: str) -> type[nn.Module]:
        return RotaryBlock

    def run_block(self, block: int, state: TokenState) -> TokenState:
        rope = rotary_rows(self.rope, state)
        return state.with_streams(x=self.blocks[block](state.streams["x"], state.c, rope, state.context))


def rotary_rows(rope: Tensor, state: TokenState) -> Tensor:
    """Return the rows of the tokens present: (N, 2E) for the whole grid, or (B, 1, K, 2E), gathered once per route."""
    if state.ids is None:
        return rope
    if "rope" not in state.cache:
        state.cache["rope"] = rope[state.ids].unsqueeze(1)
    return state.cache["rope"]
