"""RWKV-7, without torch."""

from __future__ import annotations

from tread_bench.core.describe.mixers import MixerFamily, MixerSize, heads_divide_width


def ranks(size: MixerSize) -> dict[str, int]:
    """Return the inner widths of the low-rank projections, multiples of 32: decay, strength, values and gate."""
    root = size.width**0.5
    head = size.width // size.heads / 64
    wanted = {"w": 2.5 * root * head, "a": 2.5 * root * head, "v": 1.7 * root * head, "g": 5 * root}
    if size.block == 0:
        del wanted["v"]  # the first block's values are the shared ones
    return {name: max(32, round(width / 32) * 32) for name, width in wanted.items()}


RWKV7 = MixerFamily(
    name="rwkv7",
    about="RWKV-7: a delta rule with a decay per channel, and first values (Peng et al., arXiv 2503.14456)",
    builder="tread_bench.backbones.mixers.rwkv7.network:RWKV7",
    rule=heads_divide_width,
    shares_values=True,
    gates_by_token=True,
    kernels=("recurrence",),
)
