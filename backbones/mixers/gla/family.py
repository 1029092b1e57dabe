"""Gated linear attention: closed-form cost, without torch."""

from __future__ import annotations

from tread_bench.core.describe.families import Macs
from tread_bench.core.describe.mixers import MixerFamily, MixerSize

GATE_RANK = 16  # channels from which the decays are projected
GATE_DIVISOR = 16  # of the decays' logarithms


def gla_params(size: MixerSize) -> int:
    """Count keys and queries of half the width, values, gate and output of the whole, decays and a norm."""
    width = size.width
    return 4 * width**2 + GATE_RANK * (width + width // 2) + width // 2 + width // size.heads


def gla_macs(size: MixerSize, tokens: int) -> Macs:
    """Count linear layers, and three multiply-adds per token and entry of the state: the decay, k v^T and S^T q."""
    width = size.width
    per_token = 4 * width**2 + GATE_RANK * (width + width // 2)
    return Macs(linear=tokens * per_token, scan=3 * tokens * gla_state(size))


def gla_state(size: MixerSize) -> int:
    """Count a matrix per head: half its channels for keys, all of them for values."""
    return size.width // 2 * (size.width // size.heads)


def gla_rule(size: MixerSize) -> str:
    """Return the rule that these sizes break."""
    if size.width % (2 * size.heads):
        return f"hidden {size.width} must be a multiple of 2 x heads, {2 * size.heads}: keys have half the width"
    return ""


GLA = MixerFamily(
    name="gla",
    about="gated linear attention: a decay per channel of the keys (Yang et al., arXiv 2312.06635), as in DiG",
    builder="tread_bench.backbones.mixers.gla.network:GatedLinearAttention",
    state=gla_state,
    params=gla_params,
    macs=gla_macs,
    rule=gla_rule,
    gates_by_token=True,
    kernels=("recurrence",),
)
