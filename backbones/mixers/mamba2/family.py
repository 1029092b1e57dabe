"""Mamba-2: closed-form cost, without torch."""

from __future__ import annotations

from tread_bench.backbones.mamba.cost import CONV, EXPAND
from tread_bench.core.describe.families import Macs
from tread_bench.core.describe.mixers import MixerFamily, MixerSize

STATE = 64  # states per inner channel
HEAD = 64  # channels of a head, where the width is a multiple of that


def num_heads(width: int) -> int:
    """Return the number of heads: of 64 channels each, or of the largest power of 2 that divides the inner width."""
    inner = EXPAND * width
    head = HEAD
    while inner % head:
        head //= 2
    return inner // head


def mamba2_params(size: MixerSize) -> int:
    """Count projections in and out and a norm, and for each direction a convolution and three values for each head."""
    inner, heads = EXPAND * size.width, num_heads(size.width)
    per_direction = (inner + 2 * STATE) * (CONV + 1) + 3 * heads
    return size.width * (3 * inner + 2 * STATE + heads) + inner + size.directions * per_direction


def mamba2_macs(size: MixerSize, tokens: int) -> Macs:
    """Count linear layers and convolutions, and three multiply-adds per token and entry of the state.

    These are the decay, B (dt x)^T and S^T C. Convolutions run over T + 3 positions.
    """
    inner = EXPAND * size.width
    projections = size.width * (3 * inner + 2 * STATE + num_heads(size.width))
    convolutions = size.directions * (tokens + CONV - 1) * CONV * (inner + 2 * STATE)
    return Macs(linear=tokens * projections + convolutions, scan=3 * tokens * mamba2_state(size))


def mamba2_state(size: MixerSize) -> int:
    """Count a matrix per head and direction: a row per state, a column per channel."""
    return size.directions * STATE * EXPAND * size.width


MAMBA2 = MixerFamily(
    name="mamba2",
    about="Mamba-2 (SSD): one decay per head, keys shared by all heads (Dao and Gu, arXiv 2405.21060)",
    builder="tread_bench.backbones.mixers.mamba2.network:Mamba2",
    state=mamba2_state,
    params=mamba2_params,
    macs=mamba2_macs,
    goes_both_ways=True,
    gates_by_token=True,
    kernels=("recurrence",),
)
