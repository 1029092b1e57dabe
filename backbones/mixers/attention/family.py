"""Softmax attention as a mixer, without torch."""

from __future__ import annotations

from tread_bench.core.describe.mixers import MixerFamily, heads_divide_width

ATTENTION = MixerFamily(
    name="attention",
    about="softmax attention between all tokens, as in DiT: in time quadratic in their number",
    builder="tread_bench.backbones.mixers.attention.network:SoftmaxAttention",
    rule=heads_divide_width,
    kernels=("attention",),
)
