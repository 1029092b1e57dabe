"""DiT (Peebles and Xie, "Scalable Diffusion Models with Transformers", ICCV 2023); SiT is the same network.

Parameter names are those of the authors' releases, so that their weights load. They do not sample as they are: released
SiT counts time from noise to data, released DiT counts DDPM's steps 0 to 999; `backbones.released` converts both.

With text, every block attends to it after its self-attention, as in PixArt-alpha (Chen et al., ICLR 2024): the text is
projected to the width once, no norm or modulation comes before the attention, and its output starts at zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import torch
import torch.nn.functional as F
from timm.layers import Attention, Mlp, PatchEmbed
from torch import Tensor, nn

from tread_bench.backbones.cross_attention import CrossAttention
from tread_bench.backbones.dit.family import FREQUENCIES, DiTSpec
from tread_bench.model.backbone import Backbone, TokenState
from tread_bench.model.ops.gradients import full_precision
from tread_bench.model.ops.patching import sincos_positions, sinusoids, unpatchify


def modulate(x_BND: Tensor, shift_BD: Tensor, scale_BD: Tensor) -> Tensor:
    """adaLN: x (1 + scale) + shift, the same for all tokens of a sample."""
    return x_BND * (1 + scale_BD.unsqueeze(1)) + shift_BD.unsqueeze(1)


class TimeEmbedder(nn.Module):
    """Sinusoids, then a two-layer MLP."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(FREQUENCIES, hidden), nn.SiLU(), nn.Linear(hidden, hidden))

    def forward(self, t_B: Tensor) -> Tensor:
        return self.mlp(sinusoids(t_B, FREQUENCIES).to(next(self.mlp.parameters()).dtype))


class LabelEmbedder(nn.Module):
    """A row per class and one for "no label"."""

    def __init__(self, num_classes: int, hidden: int) -> None:
        super().__init__()
        self.embedding_table = nn.Embedding(num_classes + 1, hidden)

    def forward(self, y_B: Tensor) -> Tensor:
        return self.embedding_table(y_B)


def self_attention(spec: DiTSpec, fused: bool) -> Attention | LinearAttention:
    """Return a block's attention."""
    if spec.attention == "linear":
        return LinearAttention(spec.hidden, spec.heads)
    attention = Attention(spec.hidden, num_heads=spec.heads, qkv_bias=True)
    attention.fused_attn = fused
    return attention


def text_attention(spec: DiTSpec, fused: bool) -> CrossAttention | None:
    """Return a block's attention to the text; None where there is none."""
    if not spec.context_tokens:
        return None
    return CrossAttention(spec.hidden, spec.heads, spec.hidden // spec.heads, fused, bias=True)


NO_WEIGHT = 1e-15  # added to a sum of attention weights, which may all be 0


class LinearAttention(nn.Module):
    """Attention with weights relu(q) relu(k)^T over their sum, as in SANA (Xie et al., arXiv 2410.10629).

    Products of keys and values are summed over the tokens first, in float32 or wider. Parameter names are those of
    softmax attention.
    """

    def __init__(self, width: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x_BND: Tensor) -> Tensor:
        wide = torch.promote_types(x_BND.dtype, torch.float32)
        qkv = self.qkv(x_BND).to(wide).unflatten(2, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)  # (B, H, N, E) each
        with full_precision(x_BND):
            summed = k.relu().mT @ F.pad(v, (0, 1), value=1.0)  # (B, H, E, E + 1): the last column sums the keys
            attended = q.relu() @ summed
        y = attended[..., :-1] / (attended[..., -1:] + NO_WEIGHT)
        return self.proj(y.transpose(1, 2).flatten(2).to(x_BND.dtype))


class Block(nn.Module):
    """Attention and MLP, each shifted, scaled and gated by the conditioning (adaLN-Zero); between them, text if any."""

    def __init__(self, spec: DiTSpec, fused_attention: bool) -> None:
        super().__init__()
        width = spec.hidden
        self.norm1 = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.attn = self_attention(spec, fused_attention)
        self.cross_attn = text_attention(spec, fused_attention)
        self.norm2 = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.mlp = Mlp(width, int(width * spec.mlp_ratio), act_layer=lambda: nn.GELU(approximate="tanh"))
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))

    def forward(self, x_BND: Tensor, c_BD: Tensor, context_BMD: Tensor | None = None) -> Tensor:
        shift1, scale1, gate1, shift2, scale2, gate2 = self.adaLN_modulation(c_BD).chunk(6, dim=1)
        x_BND = x_BND + gate1.unsqueeze(1) * self.attn(modulate(self.norm1(x_BND), shift1, scale1))
        if self.cross_attn is not None:
            x_BND = x_BND + self.cross_attn(x_BND, context_BMD)
        return x_BND + gate2.unsqueeze(1) * self.mlp(modulate(self.norm2(x_BND), shift2, scale2))


class CompiledBlock(Block):
    """The same block without text as one operator, which reads weights; under autocast and torch.compile, and where a
    layer has an adapter, its modules run.
    """

    def __init__(self, spec: DiTSpec, fused_attention: bool) -> None:
        from tread_bench.model.ops.cpu import adaln_operator

        super().__init__(spec, fused_attention)
        adaln_operator.prepare()

    def forward(self, x_BND: Tensor, c_BD: Tensor, context_BMD: Tensor | None = None) -> Tensor:
        device = x_BND.device.type
        modulation = cast(nn.Linear, self.adaLN_modulation[1])
        layers = (modulation, self.attn.qkv, self.attn.proj, self.mlp.fc1, self.mlp.fc2)
        is_adapted = any(type(layer) is not nn.Linear for layer in layers)
        if x_BND.is_meta or torch.is_autocast_enabled(device) or torch.compiler.is_compiling() or is_adapted:
            return super().forward(x_BND, c_BD)
        from tread_bench.model.ops.cpu.adaln_operator import adaln_block

        return adaln_block(x_BND, c_BD, layers, self.attn.num_heads)


class FinalLayer(nn.Module):
    """Modulated norm and a linear layer to patches."""

    def __init__(self, spec: DiTSpec) -> None:
        super().__init__()
        self.norm_final: nn.Module = nn.LayerNorm(spec.hidden, elementwise_affine=False, eps=1e-6)
        self.linear = nn.Linear(spec.hidden, spec.patch**2 * spec.out_channels)
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(spec.hidden, 2 * spec.hidden))

    def forward(self, x_BND: Tensor, c_BD: Tensor) -> Tensor:
        shift, scale = self.adaLN_modulation(c_BD).chunk(2, dim=1)
        return self.linear(modulate(self.norm_final(x_BND), shift, scale))


class DiT(Backbone):
    """Positions are added once at the input, so attention sees a set and any kept tokens will do."""

    spec: DiTSpec
    head_modules = ("final_layer",)
    final_layer_type: type[nn.Module] = FinalLayer

    def __init__(self, spec: DiTSpec, kernels: Mapping[str, str]) -> None:
        super().__init__()
        fused = kernels.get("attention", "sdpa") == "sdpa"
        self.x_embedder = PatchEmbed(spec.image_size, spec.patch, spec.channels, spec.hidden)
        self.t_embedder = TimeEmbedder(spec.hidden)
        self.y_embedder: nn.Module | None = None
        if spec.context_tokens:
            self.y_embedder = nn.Linear(spec.context_dim, spec.hidden)
        elif spec.num_classes:
            self.y_embedder = LabelEmbedder(spec.num_classes, spec.hidden)
        self.pos_embed = nn.Parameter(torch.empty(1, spec.num_tokens, spec.hidden), requires_grad=False)
        as_modules = spec.context_tokens or spec.attention == "linear"
        block_type = self.block_type("torch" if as_modules else kernels.get("adaln", "torch"))
        self.blocks = nn.ModuleList(block_type(spec, fused) for _ in range(spec.depth))
        self.final_layer = self.final_layer_type(spec)

    def block_type(self, kernel: str) -> type[nn.Module]:
        """Return the class of the blocks, which compute with that formulation of adaLN-Zero."""
        return CompiledBlock if kernel == "numba" else Block

    def embed(self, x: Tensor, t: Tensor, y: Tensor | None) -> TokenState:
        # The time, and a label; blocks attend to a text.
        c = self.t_embedder(t)
        context = None
        if self.y_embedder is not None and self.spec.context_tokens:
            context = self.y_embedder(y)  # (B, M, D)
        elif self.y_embedder is not None:
            c = c + self.y_embedder(y)

        # The patches with their positions.
        tokens = (self.x_embedder(x) + self.pos_embed).contiguous()  # token by token, as a route leaves them
        return TokenState({"x": tokens}, grid=self.spec.grid, c=c, context=context)

    def run_block(self, block: int, state: TokenState) -> TokenState:
        return state.with_streams(x=self.blocks[block](state.streams["x"], state.c, state.context))

    def head(self, state: TokenState) -> Tensor:
        return unpatchify(self.final_layer(state.streams["x"], state.c), state.grid, self.spec.patch)

    def init_module(self, name: str, module: nn.Module) -> None:
        """adaLN-Zero as released: Xavier linears, N(0, 0.02) embeddings, zeros where a block or the output begins."""
        if module is self:
            self.pos_embed.copy_(sincos_positions(self.spec.hidden, self.spec.grid))
        else:
            init_adaln_zero(name, module)


def init_adaln_zero(name: str, module: nn.Module) -> None:
    """Draw what a module of DiT or of its kin owns, as released; norms keep their ones."""
    if isinstance(module, nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
    elif isinstance(module, nn.Linear | nn.Conv2d):
        if "adaLN_modulation" in name or "cross_attn.to_out" in name or name == "final_layer.linear":
            nn.init.zeros_(module.weight)
        elif name.startswith(("t_embedder", "y_embedder")):
            nn.init.normal_(module.weight, std=0.02)
        else:
            nn.init.xavier_uniform_(module.weight.flatten(1))
        if module.bias is not None:
            nn.init.zeros_(module.bias)
