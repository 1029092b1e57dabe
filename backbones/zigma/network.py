"""ZigMa (Hu et al., "ZigMa: A DiT-style Zigzag Mamba Diffusion Model", ECCV 2024): a scan per block, along a path.

The residual stream is the sum of two streams, the last block's output and, in float32, everything before it. Both stay
in row order; only the mixer sees the path's order. Every block attends to the text, and its mean is added to the time.
Parameter names match the authors' release; unlike the release, the label table has a row for "no label".
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from timm.layers import PatchEmbed
from torch import Tensor, nn

from tread_bench.backbones.cross_attention import CrossAttention
from tread_bench.backbones.dit.network import LabelEmbedder, TimeEmbedder, modulate
from tread_bench.backbones.drop_path import DropPath
from tread_bench.backbones.mamba.mixer import drop_rates, init_mamba
from tread_bench.backbones.mixers.base import Mixer
from tread_bench.backbones.paths import Order, order_along
from tread_bench.backbones.zigma.family import HEAD_DIM, HEADS, ZigMaSpec
from tread_bench.core.describe.mixers import mixers
from tread_bench.core.describe.plugins import named
from tread_bench.model.backbone import Backbone, TokenState
from tread_bench.model.ops.patching import unpatchify
from tread_bench.model.ops.routing import gather_tokens


def zigzag_paths(grid: tuple[int, int]) -> Tensor:
    """Return the eight continuous paths (8, N) in the release's order: from each corner along rows, then columns."""
    raster = torch.arange(grid[0] * grid[1]).reshape(grid)
    corners = (raster, raster.flip(1), raster.flip(0), raster.flip(0, 1))
    return torch.stack([_snake(corner) for start in corners for corner in (start, start.T)])


def _snake(cells: Tensor) -> Tensor:
    """Row by row, with every second row reversed."""
    rows = cells.clone()
    rows[1::2] = rows[1::2].flip(1)
    return rows.flatten()


class Block(nn.Module):
    """Adds the previous block's output to the residual, normalises it, and mixes it shifted, scaled and gated by c.

    With text, a cross-attention is added, shifted, scaled and gated in the same way.
    """

    def __init__(self, spec: ZigMaSpec, kernels: Mapping[str, str], drop_rate: float) -> None:
        super().__init__()
        width = spec.hidden
        self.mixer: Mixer = named(mixers.find(spec.mixer).builder)(spec.mixer_size, kernels)
        self.norm = nn.RMSNorm(width, eps=1e-5)
        self.drop_path = DropPath(drop_rate)
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, (6 if spec.context_tokens else 3) * width))
        if spec.context_tokens:
            self.norm_msa = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
            self.msa = CrossAttention(width, HEADS, HEAD_DIM, fused=kernels.get("attention", "sdpa") == "sdpa")

    def forward(
        self,
        x: Tensor,
        residual: Tensor,
        c_BD: Tensor,
        drawn_B: Tensor | None,
        order: Order | None,
        context_BMD: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        residual = residual + self.drop_path(x, drawn_B)
        x = self.norm(residual)

        # Mix along the path.
        shift, scale, gate, *of_text = self.adaLN_modulation(c_BD).split(x.shape[2], dim=1)
        x = x + gate.unsqueeze(1) * self._mix(modulate(x, shift, scale), order)

        # Attend to the text.
        if context_BMD is not None:
            shift, scale, gate = of_text
            x = x + gate.unsqueeze(1) * self.msa(modulate(self.norm_msa(x), shift, scale), context_BMD)
        return x, residual

    def _mix(self, x: Tensor, order: Order | None) -> Tensor:
        if order is None:
            return self.mixer(x)
        along_path, back = order
        return gather_tokens(self.mixer(gather_tokens(x, along_path)), back)


class FinalLayer(nn.Module):
    """A norm and a linear layer to patches, without conditioning."""

    def __init__(self, spec: ZigMaSpec) -> None:
        super().__init__()
        self.norm_final = nn.LayerNorm(spec.hidden, elementwise_affine=False, eps=1e-6)
        self.linear = nn.Linear(spec.hidden, spec.patch**2 * spec.channels)

    def forward(self, x_BND: Tensor) -> Tensor:
        return self.linear(self.norm_final(x_BND))


class ZigMa(Backbone):
    """ZigMa, whose paths over the whole grid are restricted to the kept tokens by their ranks on the path."""

    spec: ZigMaSpec
    head_modules = ("norm_f", "final_layer")
    ranks: Tensor  # (8, N): rank of each token on each path

    def __init__(self, spec: ZigMaSpec, kernels: Mapping[str, str]) -> None:
        super().__init__()
        # Patches, time, and label or text.
        self.x_embedder = PatchEmbed(spec.image_size, spec.patch, spec.channels, spec.hidden)
        self.t_embedder = TimeEmbedder(spec.hidden)
        self.y_embedder: nn.Module | None = None
        if spec.context_tokens:
            self.y_embedder = nn.Linear(spec.context_dim, spec.hidden)
        elif spec.num_classes:
            self.y_embedder = LabelEmbedder(spec.num_classes, spec.hidden)
        positions = torch.empty(1, spec.num_tokens, spec.hidden)
        self.pos_embed = nn.Parameter(positions) if spec.learned_positions else None

        # Blocks.
        self.num_drops = spec.depth + 1
        rates = drop_rates(spec.drop_path, spec.depth, spec.depth)
        self.blocks = nn.ModuleList(Block(spec, kernels, rate) for rate in rates)

        # From the residual stream to the image.
        self.drop_path = DropPath(spec.drop_path)
        self.norm_f = nn.RMSNorm(spec.hidden, eps=1e-5)
        self.final_layer = FinalLayer(spec)

        # The paths of the scans.
        self.register_buffer("ranks", zigzag_paths(spec.grid).argsort(dim=1), persistent=False)

    def embed(self, x: Tensor, t: Tensor, y: Tensor | None) -> TokenState:
        # The time, and the label or the mean of the text, which blocks also attend to.
        c = self.t_embedder(t)
        context = None
        if self.y_embedder is not None and self.spec.context_tokens:
            context = self.y_embedder(y)  # (B, M, D)
            c = c + context.mean(dim=1)
        elif self.y_embedder is not None:
            c = c + self.y_embedder(y)

        # One layout and one dtype throughout, so that leaving and returning changes no bit.
        tokens = self.x_embedder(x).contiguous().to(self.x_embedder.proj.weight.dtype)
        if self.pos_embed is not None:
            tokens = tokens + self.pos_embed
        streams = {"x": tokens, "residual": torch.zeros_like(tokens)}
        return TokenState(streams, grid=self.spec.grid, c=c, context=context)

    def run_block(self, block: int, state: TokenState) -> TokenState:
        order = order_along(self.ranks, block % len(self.ranks), state) if self.spec.scan == "zigzagN8" else None
        x, residual = self.blocks[block](
            state.streams["x"], state.streams["residual"], state.c, state.drawn(block), order, state.context
        )
        return state.with_streams(x=x, residual=residual)

    def head(self, state: TokenState) -> Tensor:
        x = self.drop_path(state.streams["x"], state.drawn(self.spec.depth))
        x = self.norm_f(state.streams["residual"] + x)
        return unpatchify(self.final_layer(x), state.grid, self.spec.patch)

    def init_module(self, name: str, module: nn.Module) -> None:
        """Initialise as Mamba does; patches Xavier, time N(0, 0.02), gates and positions zero."""
        super().init_module(name, module)
        if module is self and self.pos_embed is not None:
            nn.init.zeros_(self.pos_embed)
        init_mamba(name, module, self.spec.depth)
        if isinstance(module, nn.Conv2d) and module.bias is not None:
            nn.init.xavier_uniform_(module.weight.flatten(1))
            nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Linear) and name.startswith("t_embedder"):
            nn.init.normal_(module.weight, std=0.02)
        elif isinstance(module, nn.Linear) and "adaLN_modulation" in name:
            nn.init.zeros_(module.weight)
