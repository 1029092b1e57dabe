"""JiT (Li and He, "Back to Basics: Let Denoising Generative Models Denoise", arXiv 2511.13720): pixels without latents.

Patches pass a bottleneck. Blocks are LightningDiT's with a norm of every head's queries and keys. From block
`in_context_start` on, copies of the label's embedding stand before the image tokens, each with a learned position and
without a rotation; no route takes them, and the last layer does not see them. Dropout, with which the authors train H,
is left out.

Parameter names are those of the authors' release. Its time runs from noise to data: `backbones.released` converts it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from timm.layers import AttentionRope, build_rotary_pos_embed
from torch import Tensor, nn

from tread_bench.backbones.dit.network import LabelEmbedder, TimeEmbedder, init_adaln_zero, modulate
from tread_bench.backbones.jit.family import JiTSpec
from tread_bench.backbones.lightningdit.network import RMSFinalLayer, SwiGLU, rotary_rows
from tread_bench.model.backbone import Backbone, TokenState
from tread_bench.model.ops.patching import sincos_positions, unpatchify


class BottleneckPatchEmbed(nn.Module):
    """Patches (B, N, D), row by row, through a narrow layer."""

    def __init__(self, spec: JiTSpec) -> None:
        super().__init__()
        self.proj1 = nn.Conv2d(spec.channels, spec.bottleneck, spec.patch, spec.patch, bias=False)
        self.proj2 = nn.Conv2d(spec.bottleneck, spec.hidden, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.proj2(self.proj1(x)).flatten(2).transpose(1, 2)


class HeadNorm(nn.RMSNorm):
    """Norm of a head's queries or keys, in the precision of its gain also under autocast, as released."""

    def __init__(self, width: int, **placed: Any) -> None:
        super().__init__(width, eps=1e-6, **placed)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.to(self.weight.dtype)).to(x.dtype)


class JiTBlock(nn.Module):
    """Attention with normed queries and keys, and a gated MLP, each shifted, scaled and gated by the conditioning.

    Args:
        in_context: leading tokens that are not rotated.
    """

    def __init__(self, spec: JiTSpec, in_context: int, fused_attention: bool) -> None:
        super().__init__()
        width = spec.hidden
        self.norm1 = nn.RMSNorm(width, eps=1e-6)
        self.attn = AttentionRope(
            width, spec.heads, qkv_bias=True, num_prefix_tokens=in_context, qk_norm=True, norm_layer=HeadNorm
        )
        self.attn.fused_attn = fused_attention
        self.norm2 = nn.RMSNorm(width, eps=1e-6)
        self.mlp = SwiGLU(width, spec.swiglu_hidden)
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))

    def forward(self, x_BTD: Tensor, c_BD: Tensor, rope: Tensor) -> Tensor:
        shift1, scale1, gate1, shift2, scale2, gate2 = self.adaLN_modulation(c_BD).chunk(6, dim=1)
        x_BTD = x_BTD + gate1.unsqueeze(1) * self.attn(modulate(self.norm1(x_BTD), shift1, scale1), rope)
        return x_BTD + gate2.unsqueeze(1) * self.mlp(modulate(self.norm2(x_BTD), shift2, scale2))


class JiT(Backbone):
    """In-context tokens are a stream of their own, which no route takes; image tokens gather their rotary rows."""

    spec: JiTSpec
    head_modules = ("final_layer",)
    rope: Tensor

    def __init__(self, spec: JiTSpec, kernels: Mapping[str, str]) -> None:
        super().__init__()
        fused = kernels.get("attention", "sdpa") == "sdpa"
        self.x_embedder = BottleneckPatchEmbed(spec)
        self.t_embedder = TimeEmbedder(spec.hidden)
        self.y_embedder = LabelEmbedder(spec.num_classes, spec.hidden) if spec.num_classes else None
        self.pos_embed = nn.Parameter(torch.empty(1, spec.num_tokens, spec.hidden), requires_grad=False)
        self.in_context_posemb: nn.Parameter | None = None
        if spec.in_context_tokens:
            self.in_context_posemb = nn.Parameter(torch.empty(1, spec.in_context_tokens, spec.hidden))
        self.blocks = nn.ModuleList(JiTBlock(spec, spec.in_context(block), fused) for block in range(spec.depth))
        self.final_layer = RMSFinalLayer(spec)  # type: ignore[arg-type]  # reads sizes that both specs have
        sines_cosines = build_rotary_pos_embed(list(spec.grid), dim=spec.hidden // spec.heads, in_pixels=False)
        self.register_buffer("rope", torch.cat(sines_cosines, dim=-1), persistent=False)  # (N, 2 D / heads)

    def embed(self, x: Tensor, t: Tensor, y: Tensor | None) -> TokenState:
        # The time and the label.
        c = self.t_embedder(t)
        label = torch.zeros_like(c) if self.y_embedder is None else self.y_embedder(y)

        # The patches with their positions, and the label's copies with theirs.
        streams = {"x": (self.x_embedder(x) + self.pos_embed).contiguous()}
        if self.in_context_posemb is not None:
            streams["in_context"] = label.unsqueeze(1) + self.in_context_posemb
        unrouted = tuple(name for name in streams if name != "x")
        return TokenState(streams, grid=self.spec.grid, c=c + label, unrouted=unrouted)

    def run_block(self, block: int, state: TokenState) -> TokenState:
        x, rope, count = state.streams["x"], rotary_rows(self.rope, state), self.spec.in_context(block)
        if not count:
            return state.with_streams(x=self.blocks[block](x, state.c, rope))
        tokens = self.blocks[block](torch.cat([state.streams["in_context"], x], dim=1), state.c, rope)
        return state.with_streams(in_context=tokens[:, :count], x=tokens[:, count:])

    def head(self, state: TokenState) -> Tensor:
        return unpatchify(self.final_layer(state.streams["x"], state.c), state.grid, self.spec.patch)

    def init_module(self, name: str, module: nn.Module) -> None:
        """adaLN-Zero as released, with positions of in-context tokens from N(0, 0.02^2)."""
        if module is not self:
            init_adaln_zero(name, module)
            return
        self.pos_embed.copy_(sincos_positions(self.spec.hidden, self.spec.grid))
        if self.in_context_posemb is not None:
            nn.init.normal_(self.in_context_posemb, std=0.02)
