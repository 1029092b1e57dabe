"""Gated linear attention, without torch."""

from __future__ import annotations

from tread_bench.core.describe.mixers import MixerFamily, MixerSize

GATE_RANK = 16  # channels from which the decays are projected
GATE_DIVISOR = 16  # of the decays' logarithms


def gla_rule(size: MixerSize) -> str:
    """Return the rule that these sizes break."""
    if size.width % (2 * size.heads):
        return f"hidden {size.width} must be a multiple of 2 x heads, {2 * size.heads}: keys have half the width"
    return ""


GLA = MixerFamily(
    name="gla",
    about="gated linear attention: a decay per channel of the keys (Yang et al., arXiv 2312.06635), as in DiG",
    builder="tread_bench.backbones.mixers.gla.network:GatedLinearAttention",
    rule=gla_rule,
    gates_by_token=True,
    kernels=("recurrence",),
)
