"""Mamba's mixer as a plug-in, without torch."""

from __future__ import annotations

from tread_bench.core.describe.mixers import MixerFamily

EXPAND = 2  # inner channels per channel
STATE = 16  # states per inner channel
CONV = 4  # taps of the causal convolution


def step_rank(width: int) -> int:
    """Return the number of channels from which the step sizes are projected."""
    return -(-width // 16)


MAMBA = MixerFamily(
    name="mamba",
    about="Mamba: a selective scan with a decay per channel and state (Gu and Dao, arXiv 2312.00752)",
    builder="tread_bench.backbones.mamba.mixer:mamba_mixer",
    kernels=("scan",),
    goes_both_ways=True,
)
