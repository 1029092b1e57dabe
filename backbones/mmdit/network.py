"""MMDiT (Esser et al., "Scaling Rectified Flow Transformers for High-Resolution Image Synthesis", ICML 2024).

Image and text are two streams with weights of their own, joined by one attention over both. This is the small one that
REPA (Yu et al., ICLR 2025) trains on MS-COCO, with its parameter names: blocks are modulated by the time alone, not
also by a summary of the text, queries and keys are not normed, and time runs from data to noise, as here.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from timm.layers import Mlp, PatchEmbed
from torch import Tensor, nn

from tread_bench.backbones.cross_attention import attend
from tread_bench.backbones.dit.network import FinalLayer, TimeEmbedder, modulate
from tread_bench.backbones.mmdit.family import MMDiTSpec
from tread_bench.model.backbone import Backbone, TokenState
from tread_bench.model.ops.patching import sincos_positions, unpatchify


class Projections(nn.Module):
    """The linear layers before and after an attention that is computed elsewhere; without one after where it ends."""

    def __init__(self, width: int, ends: bool) -> None:
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        if not ends:
            self.proj = nn.Linear(width, width)


class StreamBlock(nn.Module):
    """One stream's part of a block: what is before and after the joint attention, as in DiT.

    A stream that `ends` in the block is read by the other one and does not change: nothing would read it afterwards.
    """

    def __init__(self, spec: MMDiTSpec, ends: bool = False) -> None:
        super().__init__()
        width = spec.hidden
        self.ends = ends
        self.norm1 = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.attn = Projections(width, ends)
        if not ends:
            self.norm2 = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
            self.mlp = Mlp(width, int(width * spec.mlp_ratio), act_layer=lambda: nn.GELU(approximate="tanh"))
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, (2 if ends else 6) * width))

    def before(self, x_BTD: Tensor, c_BD: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return queries, keys and values (B, T, 3D), and the shift, scale and gates (B, D) of what comes after."""
        shift, scale, *others = self.adaLN_modulation(c_BD).chunk(2 if self.ends else 6, dim=1)
        return self.attn.qkv(modulate(self.norm1(x_BTD), shift, scale)), tuple(others)

    def after(self, x_BTD: Tensor, attended_BTD: Tensor, others: tuple[Tensor, ...]) -> Tensor:
        """Return the stream behind the block."""
        if self.ends:
            return x_BTD
        gate1, shift2, scale2, gate2 = others
        x_BTD = x_BTD + gate1.unsqueeze(1) * self.attn.proj(attended_BTD.contiguous())
        return x_BTD + gate2.unsqueeze(1) * self.mlp(modulate(self.norm2(x_BTD), shift2, scale2))


class JointBlock(nn.Module):
    """The tokens present (B, T, D) and the whole text (B, M, D) attend to each other and to themselves."""

    def __init__(self, spec: MMDiTSpec, fused_attention: bool, ends: bool) -> None:
        super().__init__()
        self.heads = spec.heads
        self.fused = fused_attention
        self.context_block = StreamBlock(spec, ends)
        self.x_block = StreamBlock(spec)

    def forward(self, x_BTD: Tensor, text_BMD: Tensor, c_BD: Tensor) -> tuple[Tensor, Tensor]:
        # The text comes first, as released.
        of_text, text_others = self.context_block.before(text_BMD, c_BD)
        of_image, image_others = self.x_block.before(x_BTD, c_BD)
        q, k, v = torch.cat([of_text, of_image], dim=1).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        attended = attend(q, k, v, self.fused)

        # Each stream goes on by itself.
        text_part, image_part = attended.split([text_BMD.shape[1], x_BTD.shape[1]], dim=1)
        return (
            self.x_block.after(x_BTD, image_part, image_others),
            self.context_block.after(text_BMD, text_part, text_others),
        )


class MMDiT(Backbone):
    """A route takes the image; the text changes in every block but the last, and is whole in all of them."""

    spec: MMDiTSpec
    head_modules = ("final_layer",)
    pos_embed: Tensor

    def __init__(self, spec: MMDiTSpec, kernels: Mapping[str, str]) -> None:
        super().__init__()
        fused = kernels.get("attention", "sdpa") == "sdpa"
        self.x_embedder = PatchEmbed(spec.image_size, spec.patch, spec.channels, spec.hidden)
        self.t_embedder = TimeEmbedder(spec.hidden)
        self.context_embedder = nn.Linear(spec.context_dim, spec.hidden)
        self.register_buffer("pos_embed", sincos_positions(spec.hidden, spec.grid).unsqueeze(0), persistent=False)
        self.joint_blocks = nn.ModuleList(
            JointBlock(spec, fused, ends=block == spec.depth - 1) for block in range(spec.depth)
        )
        self.final_layer = FinalLayer(spec)

    def embed(self, x: Tensor, t: Tensor, y: Tensor | None) -> TokenState:
        tokens = (self.x_embedder(x) + self.pos_embed).contiguous()  # token by token, as a route leaves them
        streams = {"x": tokens, "text": self.context_embedder(y)}
        return TokenState(streams, grid=self.spec.grid, c=self.t_embedder(t), unrouted=("text",))

    def run_block(self, block: int, state: TokenState) -> TokenState:
        x, text = self.joint_blocks[block](state.streams["x"], state.streams["text"], state.c)
        return state.with_streams(x=x, text=text)

    def head(self, state: TokenState) -> Tensor:
        return unpatchify(self.final_layer(state.streams["x"], state.c), state.grid, self.spec.patch)

    def init_module(self, name: str, module: nn.Module) -> None:
        """torch's own draw, as released: no layer starts at zero."""
        super().init_module(name, module)
