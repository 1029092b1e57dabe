"""DiS (Fei et al., "Scalable Diffusion Models with State Space Backbone", arXiv 2402.05608): Mamba in both directions.

Label and time are tokens in front of the patches; long skips connect the first half of the blocks to the second. The
residual stream is the sum of two streams, the last mixer's output and, in float32, everything before it. Parameter
names match the authors' release, so its weights load.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from timm.layers import PatchEmbed
from torch import Tensor, nn

from tread_bench.backbones.dis.family import DiSSpec
from tread_bench.backbones.dit.network import LabelEmbedder, modulate
from tread_bench.backbones.drop_path import DropPath
from tread_bench.backbones.mamba.mixer import drop_rates, init_mamba
from tread_bench.backbones.mirrored import MirroredBackbone
from tread_bench.backbones.mixers.base import Mixer
from tread_bench.core.describe.mixers import mixers
from tread_bench.core.describe.plugins import named
from tread_bench.model.backbone import TokenState
from tread_bench.model.ops.patching import sinusoids, unpatchify


class Block(nn.Module):
    """Adds the previous mixer's output to the residual, normalises it and mixes; a long skip is joined first."""

    def __init__(self, spec: DiSSpec, kernels: Mapping[str, str], drop_rate: float, skip: bool) -> None:
        super().__init__()
        width = spec.hidden
        self.mixer: Mixer = named(mixers.find(spec.mixer).builder)(spec.mixer_size, kernels)
        self.norm = nn.RMSNorm(width, eps=1e-5)
        self.drop_path = DropPath(drop_rate)
        self.skip_linear = nn.Linear(2 * width, width) if skip else None

    def forward(
        self, hidden: Tensor, residual: Tensor, drawn_B: Tensor | None, skip: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        if self.skip_linear is not None:
            assert skip is not None, "a block of the second half takes a long skip"
            hidden = self.skip_linear(torch.cat([hidden, skip], dim=-1))
        residual = residual + self.drop_path(hidden.to(residual.dtype), drawn_B)
        return self.mixer(self.norm(residual)), residual


class FinalLayer(nn.Module):
    """A norm, modulated if there are labels, and a linear layer to patches."""

    def __init__(self, spec: DiSSpec) -> None:
        super().__init__()
        width = spec.hidden
        self.norm_final = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.linear = nn.Linear(width, spec.patch**2 * spec.out_channels)
        if spec.num_classes:
            self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 2 * width))

    def forward(self, x_BND: Tensor, c_BD: Tensor | None) -> Tensor:
        x_BND = self.norm_final(x_BND)
        if c_BD is not None:
            x_BND = modulate(x_BND, *self.adaLN_modulation(c_BD).chunk(2, dim=1))
        return self.linear(x_BND)


class DiS(MirroredBackbone):
    """DiS, whose scans and convolutions run along the kept tokens in ascending order, prefix first."""

    spec: DiSSpec
    head_modules = ("norm_f", "final_layer")
    saved_stream = "hidden"

    def __init__(self, spec: DiSSpec, kernels: Mapping[str, str]) -> None:
        super().__init__()
        width = spec.hidden

        # Patches, time and label.
        self.patch_embed = PatchEmbed(spec.image_size, spec.patch, spec.channels, width)
        self.time_embed = nn.Sequential(nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, width))
        self.label_emb = LabelEmbedder(spec.num_classes, width) if spec.num_classes else None
        self.pos_embed = nn.Parameter(torch.empty(1, spec.num_prefix + spec.num_tokens, width))

        # Blocks: long skips end in the second half.
        self.num_drops = spec.depth + 1
        half = spec.depth // 2
        rates = drop_rates(spec.drop_path, spec.depth, spec.depth + 1)
        self.set_blocks([Block(spec, kernels, rate, i > half) for i, rate in enumerate(rates)])

        # From the residual stream to the image.
        self.drop_path = DropPath(spec.drop_path)
        self.norm_f = nn.RMSNorm(width, eps=1e-5)
        self.final_layer = FinalLayer(spec)

    def embed(self, x: Tensor, t: Tensor, y: Tensor | None) -> TokenState:
        # Label and time are prefix tokens; with labels, their sum modulates the last layer.
        time = self.time_embed(sinusoids(t, self.spec.hidden).to(self.pos_embed.dtype))
        prefix = [time]
        c = None
        if self.label_emb is not None:
            label = self.label_emb(y)
            prefix = [label, time]
            c = label + time

        # Tokens with their positions; the residual starts at zero.
        hidden = torch.cat([torch.stack(prefix, dim=1), self.patch_embed(x)], dim=1) + self.pos_embed
        return TokenState(
            {"hidden": hidden, "residual": torch.zeros_like(hidden)},
            grid=self.spec.grid,
            c=c,
            num_prefix=len(prefix),
        )

    def advance(self, layer: nn.Module, block: int, state: TokenState, skip: Tensor | None = None) -> TokenState:
        hidden, residual = layer(state.streams["hidden"], state.streams["residual"], state.drawn(block), skip)
        return state.with_streams(hidden=hidden, residual=residual)

    def head(self, state: TokenState) -> Tensor:
        residual = state.streams["residual"]
        last = state.streams["hidden"].to(residual.dtype)
        residual = residual + self.drop_path(last, state.drawn(self.spec.depth))
        tokens = self.norm_f(residual)
        patches = self.final_layer(tokens, state.c)[:, state.num_prefix :]
        return unpatchify(patches, state.grid, self.spec.patch)

    def init_module(self, name: str, module: nn.Module) -> None:
        """Initialise as Mamba does; positions start at zero."""
        super().init_module(name, module)
        init_mamba(name, module, self.spec.depth)
        if module is self:
            nn.init.zeros_(self.pos_embed)
