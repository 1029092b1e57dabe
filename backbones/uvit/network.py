"""U-ViT (Bao et al., "All are Worth Words: A ViT Backbone for Diffusion Models", CVPR 2023).

Label, time and text are tokens in front of the patches, and long skips connect the first half of the blocks to the
second. Parameter names match the authors' release, so its weights load.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from timm.layers import Attention, Mlp, PatchEmbed
from torch import Tensor, nn

from tread_bench.backbones.mirrored import MirroredBackbone
from tread_bench.backbones.uvit.family import UViTSpec
from tread_bench.model.backbone import TokenState
from tread_bench.model.ops.patching import sinusoids, unpatchify


class Block(nn.Module):
    """Attention and MLP; if a long skip ends here, a linear layer first joins it to the stream."""

    def __init__(self, spec: UViTSpec, fused_attention: bool, skip: bool = False) -> None:
        super().__init__()
        width = spec.hidden
        self.norm1 = nn.LayerNorm(width)
        self.attn = Attention(width, num_heads=spec.heads, qkv_bias=False)
        self.attn.fused_attn = fused_attention
        self.norm2 = nn.LayerNorm(width)
        self.mlp = Mlp(width, int(width * spec.mlp_ratio))
        if skip:
            self.skip_linear = nn.Linear(2 * width, width)

    def forward(self, x_BND: Tensor, skip_BND: Tensor | None = None) -> Tensor:
        if skip_BND is not None:
            x_BND = self.skip_linear(torch.cat([x_BND, skip_BND], dim=-1))
        x_BND = x_BND + self.attn(self.norm1(x_BND))
        return x_BND + self.mlp(self.norm2(x_BND))


class UViT(MirroredBackbone):
    """Positions are learned and added once, so attention sees a set; all conditioning is in the prefix, which stays."""

    spec: UViTSpec
    head_modules = ("norm", "decoder_pred", "final_layer")

    def __init__(self, spec: UViTSpec, kernels: Mapping[str, str]) -> None:
        super().__init__()
        width = spec.hidden

        # Patches, label and text; the time is a token of sinusoids.
        self.patch_embed = PatchEmbed(spec.image_size, spec.patch, spec.channels, width)
        self.label_emb = nn.Embedding(spec.num_classes + 1, width) if spec.num_classes else None
        self.context_embed = nn.Linear(spec.context_dim, width) if spec.context_tokens else None
        self.pos_embed = nn.Parameter(torch.empty(1, spec.num_prefix + spec.num_tokens, width))

        # Blocks: long skips end in the second half.
        fused = kernels.get("attention", "sdpa") == "sdpa"
        self.set_blocks([Block(spec, fused, skip=block > spec.depth // 2) for block in range(spec.depth + 1)])

        # From the stream to the image.
        self.norm = nn.LayerNorm(width)
        self.decoder_pred = nn.Linear(width, spec.patch**2 * spec.channels)
        self.final_layer = nn.Conv2d(spec.channels, spec.channels, 3, padding=1) if spec.final_conv else nn.Identity()

    def embed(self, x: Tensor, t: Tensor, y: Tensor | None) -> TokenState:
        tokens = [sinusoids(t, self.spec.hidden).to(self.pos_embed.dtype).unsqueeze(1), self.patch_embed(x)]
        if self.label_emb is not None:
            tokens.insert(0, self.label_emb(y).unsqueeze(1))
        if self.context_embed is not None:
            tokens.insert(1, self.context_embed(y))
        whole = torch.cat(tokens, dim=1) + self.pos_embed
        return TokenState({"x": whole}, grid=self.spec.grid, num_prefix=self.spec.num_prefix)

    def advance(self, layer: nn.Module, block: int, state: TokenState, skip: Tensor | None = None) -> TokenState:
        return state.with_streams(x=layer(state.streams["x"], skip))

    def head(self, state: TokenState) -> Tensor:
        patches = self.decoder_pred(self.norm(state.streams["x"][:, state.num_prefix :]))
        return self.final_layer(unpatchify(patches, state.grid, self.spec.patch))

    def init_module(self, name: str, module: nn.Module) -> None:
        """Initialise as released: truncated normal linears and positions, torch's defaults elsewhere, no zeros."""
        if module is self:
            nn.init.trunc_normal_(self.pos_embed, std=0.02)
        elif isinstance(module, nn.Linear):
            nn.init.trunc_normal_(module.weight, std=0.02)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        else:
            super().init_module(name, module)
