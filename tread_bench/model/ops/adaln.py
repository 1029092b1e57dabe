"""DiT's two branches, each as one operator that Numba compiles for a CPU (Peebles and Xie, ICCV 2023, section 3.2).

Shapes: B batch, N tokens, D width. float32 or float64.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn


def attention_branch(
    x_BND: Tensor, modulation: Sequence[Tensor], qkv: nn.Linear, proj: nn.Linear, heads: int
) -> Tensor:
    """Return x + gate * proj(attention(qkv(norm(x) * (1 + scale) + shift))), of shape (B, N, D).

    Args:
        modulation: shift, scale and gate, (B, D) each.
        qkv, proj: linear layers with biases, from D to 3 D and from D to D.

    Raises:
        ValueError: another device or dtype, or dtypes that differ.
        NotImplementedError: the backward pass is to be differentiated again.
        ImportError: numba is not installed.
    """
    from tread_bench.model.ops.cpu import adaln_operator

    return adaln_operator.attention_branch(x_BND, modulation, qkv, proj, heads)


def mlp_branch(x_BND: Tensor, modulation: Sequence[Tensor], fc1: nn.Linear, fc2: nn.Linear) -> Tensor:
    """Return x + gate * fc2(gelu(fc1(norm(x) * (1 + scale) + shift))), of shape (B, N, D); GELU by tanh.

    Arguments and errors are those of `attention_branch`.
    """
    from tread_bench.model.ops.cpu import adaln_operator

    return adaln_operator.mlp_branch(x_BND, modulation, fc1, fc2)


def prepare_adaln() -> None:
    """Compile the kernels now, so that no training step waits for it."""
    from tread_bench.model.ops.cpu import adaln_operator

    adaln_operator.prepare()
