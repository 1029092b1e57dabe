"""Softmax attention as a mixer: closed-form cost, without torch."""

from __future__ import annotations

from tread_bench.core.describe.families import Macs
from tread_bench.core.describe.mixers import MixerFamily, MixerSize, heads_divide_width


def attention_params(size: MixerSize) -> int:
    """Count queries, keys, values and the projection out, each with a bias."""
    return 4 * size.width * (size.width + 1)


def attention_macs(size: MixerSize, tokens: int) -> Macs:
    """Count linear layers, and the products of queries with keys and of weights with values."""
    return Macs(linear=4 * tokens * size.width**2, attention=2 * tokens**2 * size.width)


ATTENTION = MixerFamily(
    name="attention",
    about="softmax attention between all tokens, as in DiT: in time quadratic in their number",
    builder="tread_bench.backbones.mixers.attention.network:SoftmaxAttention",
    state=lambda size: 0,
    params=attention_params,
    macs=attention_macs,
    rule=heads_divide_width,
    kernels=("attention",),
)
