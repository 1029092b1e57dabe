"""Gated DeltaNet, without torch."""

from __future__ import annotations

from tread_bench.core.describe.mixers import MixerFamily, heads_divide_width

EXPAND_V = 2  # channels of a value per channel of a key


GATED_DELTA = MixerFamily(
    name="gated_delta",
    about="gated DeltaNet: replaces what its state holds for a key (Yang et al., arXiv 2412.06464)",
    builder="tread_bench.backbones.mixers.gated_delta.network:GatedDeltaNet",
    rule=heads_divide_width,
    gates_by_token=True,
    kernels=("recurrence",),
)
