"""Softmax attention in the slot of a mixer: the same for tokens in any order. Parameter names are DiT's."""

from __future__ import annotations

from collections.abc import Mapping

from timm.layers import Attention
from torch import Tensor, nn

from tread_bench.backbones.mixers.base import Mixer
from tread_bench.core.describe.mixers import MixerSize


class SoftmaxAttention(Attention, Mixer):
    """Nothing decays, so tokens that were skipped change nothing."""

    def __init__(self, size: MixerSize, kernels: Mapping[str, str]) -> None:
        super().__init__(size.width, num_heads=size.heads, qkv_bias=True)
        self.fused_attn = kernels.get("attention", "sdpa") == "sdpa"

    def forward(self, x_BLD: Tensor, steps_BL: Tensor | None = None) -> Tensor:
        return super().forward(x_BLD)

    def init_part(self, name: str, part: nn.Module) -> None:
        """Draw Xavier weights as in DiT, with biases of 0."""
        if isinstance(part, nn.Linear):
            nn.init.xavier_uniform_(part.weight)
            nn.init.zeros_(part.bias)
