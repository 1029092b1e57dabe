"""DiT's block as one operator that Numba compiles for a CPU (Peebles and Xie, ICCV 2023, section 3.2).

Shapes: B batch, N tokens, D width. float32 or float64.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor, nn


class AdalnLayers(NamedTuple):
    """The linear layers of a block, each with a bias."""

    modulation: nn.Linear  # D to 6 D: shift, scale and gate of attention, then of the MLP
    qkv: nn.Linear  # D to 3 D
    proj: nn.Linear  # D to D
    fc1: nn.Linear  # D to the width of the MLP
    fc2: nn.Linear  # and back


def adaln_block(x_BND: Tensor, c_BD: Tensor, layers: AdalnLayers, heads: int) -> Tensor:
    """Return y + gate2 * mlp(norm(y) * (1 + scale2) + shift2), (B, N, D), where y = x + gate1 * attention(...) alike.

    Shifts, scales and gates are modulation(silu(c)); the MLP has GELU by tanh; the norms have no gain and epsilon 1e-6.

    Raises:
        ValueError: another device or dtype, or dtypes that differ.
        NotImplementedError: the backward pass is to be differentiated again.
        ImportError: numba is not installed.
    """
    from tread_bench.model.ops.cpu import adaln_operator

    return adaln_operator.adaln_block(x_BND, c_BD, layers, heads)


def prepare_adaln() -> None:
    """Compile the kernels now, so that no training step waits for it."""
    from tread_bench.model.ops.cpu import adaln_operator

    adaln_operator.prepare()
