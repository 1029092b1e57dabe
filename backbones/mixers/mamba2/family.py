"""Mamba-2, without torch."""

from __future__ import annotations

from tread_bench.backbones.mamba.family import EXPAND
from tread_bench.core.describe.mixers import MixerFamily

STATE = 64  # states per inner channel
HEAD = 64  # channels of a head, where the width is a multiple of that


def num_heads(width: int) -> int:
    """Return the number of heads: of 64 channels each, or of the largest power of 2 that divides the inner width."""
    inner = EXPAND * width
    head = HEAD
    while inner % head:
        head //= 2
    return inner // head


MAMBA2 = MixerFamily(
    name="mamba2",
    about="Mamba-2 (SSD): one decay per head, keys shared by all heads (Dao and Gu, arXiv 2405.21060)",
    builder="tread_bench.backbones.mixers.mamba2.network:Mamba2",
    goes_both_ways=True,
    gates_by_token=True,
    kernels=("recurrence",),
)
