"""Gated DeltaNet: closed-form cost, without torch."""

from __future__ import annotations

from tread_bench.backbones.mamba.cost import CONV
from tread_bench.core.describe.families import Macs
from tread_bench.core.describe.mixers import MixerFamily, MixerSize, heads_divide_width

EXPAND_V = 2  # channels of a value per channel of a key


def _projections(size: MixerSize) -> int:
    """Queries and keys of the width; values, gate and output of twice that; a step and a strength for each head."""
    return (2 + 3 * EXPAND_V) * size.width**2 + 2 * size.width * size.heads


def delta_params(size: MixerSize) -> int:
    """Count projections, convolutions without bias, a rate and a bias of the steps for each head, and a norm."""
    convolutions = CONV * (2 + EXPAND_V) * size.width
    return _projections(size) + convolutions + 2 * size.heads + EXPAND_V * size.width // size.heads


def delta_macs(size: MixerSize, tokens: int) -> Macs:
    """Count linear layers and convolutions, and five multiply-adds per token and entry of the state.

    These are the decay, S^T k, k u^T, k v^T and S^T q. Convolutions run over T + 3 positions.
    """
    convolutions = (tokens + CONV - 1) * CONV * (2 + EXPAND_V) * size.width
    return Macs(linear=tokens * _projections(size) + convolutions, scan=5 * tokens * delta_state(size))


def delta_state(size: MixerSize) -> int:
    """Count a matrix per head: a row per channel of its keys, and twice as many columns."""
    return EXPAND_V * size.width * (size.width // size.heads)


GATED_DELTA = MixerFamily(
    name="gated_delta",
    about="gated DeltaNet: replaces what its state holds for a key (Yang et al., arXiv 2412.06464)",
    builder="tread_bench.backbones.mixers.gated_delta.network:GatedDeltaNet",
    state=delta_state,
    params=delta_params,
    macs=delta_macs,
    rule=heads_divide_width,
    gates_by_token=True,
    kernels=("recurrence",),
)
