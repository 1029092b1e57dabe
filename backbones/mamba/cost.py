"""Parameters and MACs of a Mamba mixer, shared by DiS and ZigMa; without torch."""

from __future__ import annotations

from tread_bench.core.describe.families import Macs

EXPAND = 2  # inner channels per channel
STATE = 16  # states per inner channel
CONV = 4  # taps of the causal convolution


def step_rank(width: int) -> int:
    """Return the number of channels from which the step sizes are projected."""
    return -(-width // 16)


def mixer_params(width: int, directions: int = 1) -> int:
    """Return the parameters of a mixer: directions share the projections in and out, and each has its own rest."""
    inner = EXPAND * width
    rank = step_rank(width)
    per_direction = inner * (CONV + 1) + inner * (rank + 2 * STATE) + (rank + 1) * inner + inner * STATE + inner
    return 3 * width * inner + directions * per_direction


def mixer_macs(width: int, tokens: int, directions: int = 1) -> Macs:
    """Count linear layers, convolution, and three multiply-adds per token, channel and state: a h, (delta u) B and C h.

    As released, the convolution runs over T + 3 positions, and the last three are cut off.
    """
    inner = EXPAND * width
    rank = step_rank(width)
    projections = 3 * width * inner + directions * (inner * (rank + 2 * STATE) + rank * inner)
    convolution = directions * (tokens + CONV - 1) * inner * CONV
    return Macs(linear=tokens * projections + convolution, scan=directions * 3 * tokens * inner * STATE)
