"""Diffusion-RWKV (Fei et al., "Scaling RWKV-Like Architectures for Diffusion Models", arXiv 2404.04478).

Bi-WKV runs along the raster order and Q-shift on the grid; there are long skips and adaLN-Zero. Parameter names match
the authors' release, so its weights load. Shapes: B batch, T tokens present, D width.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial

import torch
from timm.layers import PatchEmbed
from torch import Tensor, nn

from tread_bench.backbones.dit.network import FinalLayer, LabelEmbedder, TimeEmbedder, modulate
from tread_bench.backbones.drop_path import DropPath
from tread_bench.backbones.mirrored import MirroredBackbone
from tread_bench.backbones.rwkv.family import MLP_RATIO, DRWKVSpec
from tread_bench.model.backbone import TokenState
from tread_bench.model.ops.patching import sincos_positions, unpatchify
from tread_bench.model.ops.qshift import neighbours, q_shift, q_shift_kept
from tread_bench.model.ops.wkv import bi_wkv, prepare_wkv

Shift = Callable[[Tensor], Tensor]


def mix(x_BTD: Tensor, shifted_BTD: Tensor, share_11D: Tensor) -> Tensor:
    """Return share x + (1 - share) shifted, channel by channel."""
    return shifted_BTD + share_11D * (x_BTD - shifted_BTD)


def _ramp(width: int, power: float) -> Tensor:
    """(channel / width) ^ power, of shape (1, 1, D)."""
    return (torch.arange(width) / width).pow(power).view(1, 1, -1)


class SpatialMix(nn.Module):
    """Bi-WKV over tokens mixed with neighbours, with a sigmoid gate; decay and bonus are divided by the length."""

    def __init__(self, spec: DRWKVSpec, block: int, wkv_kernel: str) -> None:
        super().__init__()
        width = spec.hidden
        self.depth = spec.depth
        self.block = block
        self.wkv_kernel = wkv_kernel
        self.spatial_decay = nn.Parameter(torch.empty(width))
        self.spatial_first = nn.Parameter(torch.empty(width))
        self.spatial_mix_k, self.spatial_mix_v, self.spatial_mix_r = (
            nn.Parameter(torch.empty(1, 1, width)) for _ in range(3)
        )
        self.key, self.value, self.receptance, self.output = (nn.Linear(width, width, bias=False) for _ in range(4))
        prepare_wkv(wkv_kernel)

    def forward(self, x_BTD: Tensor, shifted_BTD: Tensor) -> Tensor:
        # Compute keys, values and gates from tokens mixed with their neighbours.
        k = self.key(mix(x_BTD, shifted_BTD, self.spatial_mix_k))
        v = self.value(mix(x_BTD, shifted_BTD, self.spatial_mix_v))
        r = self.receptance(mix(x_BTD, shifted_BTD, self.spatial_mix_r))

        # Divide decay and bonus by the length.
        length = x_BTD.shape[1]
        y = bi_wkv(self.spatial_decay / length, self.spatial_first / length, k, v, self.wkv_kernel)
        return self.output(r.sigmoid() * y)

    def reset_parameters(self) -> None:
        """Set decays from -5 to 3, curved by depth, and shares of x from 0 to 1, larger in later blocks."""
        width = len(self.spatial_decay)
        early = 1 - self.block / self.depth
        late = self.block / (self.depth - 1)
        channel = torch.arange(width)
        self.spatial_decay.copy_(-5 + 8 * (channel / (width - 1)).pow(0.7 + 1.3 * late))
        self.spatial_first.copy_(math.log(0.3) + 0.5 * ((channel + 1) % 3 - 1))
        self.spatial_mix_k.copy_(_ramp(width, early))
        self.spatial_mix_v.copy_(_ramp(width, early) + 0.3 * late)
        self.spatial_mix_r.copy_(_ramp(width, 0.5 * early))


class ChannelMix(nn.Module):
    """Squared ReLU between two layers, over tokens mixed with their neighbours, with a sigmoid gate."""

    def __init__(self, spec: DRWKVSpec, block: int) -> None:
        super().__init__()
        width = spec.hidden
        self.early = 1 - block / spec.depth
        self.spatial_mix_k, self.spatial_mix_r = (nn.Parameter(torch.empty(1, 1, width)) for _ in range(2))
        self.key = nn.Linear(width, MLP_RATIO * width, bias=False)
        self.receptance = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(MLP_RATIO * width, width, bias=False)

    def forward(self, x_BTD: Tensor, shifted_BTD: Tensor) -> Tensor:
        k = self.key(mix(x_BTD, shifted_BTD, self.spatial_mix_k))
        r = self.receptance(mix(x_BTD, shifted_BTD, self.spatial_mix_r))
        return r.sigmoid() * self.value(k.relu().square())

    def reset_parameters(self) -> None:
        """Set shares of x from 0 to 1, larger in later blocks."""
        for mix in (self.spatial_mix_k, self.spatial_mix_r):
            mix.copy_(_ramp(mix.numel(), self.early))


class Block(nn.Module):
    """Spatial mix and channel mix, each shifted, scaled and gated by the conditioning (adaLN-Zero)."""

    def __init__(self, spec: DRWKVSpec, block: int, wkv_kernel: str) -> None:
        super().__init__()
        width = spec.hidden
        self.ln0 = nn.LayerNorm(width) if block == 0 else nn.Identity()
        self.ln1 = nn.LayerNorm(width)
        self.ln2 = nn.LayerNorm(width)
        self.att = SpatialMix(spec, block, wkv_kernel)
        self.ffn = ChannelMix(spec, block)
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))
        self.drop_path = DropPath(spec.drop_path * block / spec.depth)
        if block > spec.depth // 2:
            self.skip_linear = nn.Linear(2 * width, width)

    def forward(
        self,
        x_BTD: Tensor,
        c_BD: Tensor,
        shift: Shift,
        drawn_B: tuple[Tensor | None, Tensor | None],
        skip_BTD: Tensor | None = None,
    ) -> Tensor:
        # Join the long skip.
        if skip_BTD is not None:
            x_BTD = self.skip_linear(torch.cat([x_BTD, skip_BTD], dim=-1))
        x_BTD = self.ln0(x_BTD)

        # Spatial mix, then channel mix.
        shift1, scale1, gate1, shift2, scale2, gate2 = self.adaLN_modulation(c_BD).chunk(6, dim=1)
        mixed = modulate(self.ln1(x_BTD), shift1, scale1)
        x_BTD = x_BTD + self.drop_path(gate1.unsqueeze(1) * self.att(mixed, shift(mixed)), drawn_B[0])
        mixed = modulate(self.ln2(x_BTD), shift2, scale2)
        return x_BTD + self.drop_path(gate2.unsqueeze(1) * self.ffn(mixed, shift(mixed)), drawn_B[1])


class DRWKV(MirroredBackbone):
    """Bi-WKV sees a sequence, Q-shift the grid; inside a route, neighbours are looked up among the kept tokens."""

    spec: DRWKVSpec
    head_modules = ("norm_f", "final_layer")

    def __init__(self, spec: DRWKVSpec, kernels: Mapping[str, str]) -> None:
        super().__init__()
        # Patches, time and label.
        self.patch_embed = PatchEmbed(spec.image_size, spec.patch, spec.channels, spec.hidden)
        self.time_embed = TimeEmbedder(spec.hidden)
        self.label_emb = LabelEmbedder(spec.num_classes, spec.hidden) if spec.num_classes else None
        self.pos_embed = nn.Parameter(torch.empty(1, spec.num_tokens, spec.hidden))

        # Blocks: long skips end in the second half.
        self.num_drops = 2 * spec.depth
        kernel = kernels.get("wkv", "torch")
        self.set_blocks([Block(spec, block, kernel) for block in range(spec.depth)])

        # From the stream to the image.
        self.norm_f = nn.LayerNorm(spec.hidden)
        self.final_layer = FinalLayer(spec)  # type: ignore[arg-type]  # reads sizes that both specs have

    def embed(self, x: Tensor, t: Tensor, y: Tensor | None) -> TokenState:
        c = self.time_embed(t)
        if self.label_emb is not None:
            c = c + self.label_emb(y)
        tokens = (self.patch_embed(x) + self.pos_embed).contiguous()  # token by token, as a route leaves them
        return TokenState({"x": tokens}, grid=self.spec.grid, c=c)

    def advance(self, layer: nn.Module, block: int, state: TokenState, skip: Tensor | None = None) -> TokenState:
        drawn = state.drawn(2 * block), state.drawn(2 * block + 1)
        return state.with_streams(x=layer(state.streams["x"], state.c, self.shift(state), drawn, skip))

    def shift(self, state: TokenState) -> Shift:
        """Return the Q-shift for the tokens present."""
        if state.ids is None:
            return partial(q_shift, grid=state.grid)
        if "q_shift" not in state.cache:
            state.cache["q_shift"] = neighbours(state.ids, state.grid)
        return partial(q_shift_kept, neighbours_BK4=state.cache["q_shift"])

    def head(self, state: TokenState) -> Tensor:
        patches = self.final_layer(self.norm_f(state.streams["x"]), state.c)
        return unpatchify(patches, state.grid, self.spec.patch)

    def init_module(self, name: str, module: nn.Module) -> None:
        """Initialise as released: Xavier linears, N(0, 0.02) embeddings, zeros where a block or the output begins."""
        if module is self:
            self.pos_embed.copy_(sincos_positions(self.spec.hidden, self.spec.grid))
        elif isinstance(module, nn.Linear) and ("adaLN_modulation" in name or name == "final_layer.linear"):
            nn.init.zeros_(module.weight)
        elif isinstance(module, nn.Linear | nn.Embedding) and name.startswith(("time_embed", "label_emb")):
            nn.init.normal_(module.weight, std=0.02)
        elif isinstance(module, nn.Linear | nn.Conv2d):
            nn.init.xavier_uniform_(module.weight.flatten(1))
        else:
            super().init_module(name, module)
        if isinstance(module, nn.Linear | nn.Conv2d) and module.bias is not None:
            nn.init.zeros_(module.bias)
