"""Gated linear recurrences with a matrix as their state.

    S' = diag(e^{g_t}) S_{t-1} + k_t v_t^T,    S_t = S' + b_t (S_{t-1}^T a_t)^T,    y_t = S_t^T q_t

Without a and b this is gated linear attention (Yang et al., arXiv 2312.06635), and Mamba-2 (Dao and Gu, arXiv
2405.21060) where all K channels of a key decay alike. With them it is a delta rule: gated DeltaNet (Yang et al., arXiv
2412.06464) and RWKV-7 (Peng et al., arXiv 2503.14456).

Shapes: B batch, H heads, L length, K channels of a key, V of a value.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from tread_bench.core.names import unknown
from tread_bench.model.ops.recurrence_torch import recurrence_scan


def linear_recurrence(q: Tensor, k: Tensor, v: Tensor, g: Tensor, kernel: str = "torch") -> Tensor:
    """Compute the recurrence above without a and b.

    Args:
        q, k: (B, H, L, K), or (B, 1, L, K) where all heads share them and g has one channel.
        v: (B, H, L, V).
        g: (B, H, L, K), logarithms of decays, not positive; (B, H, L, 1): the same for all channels.
        kernel: "torch" runs anywhere, "numba" needs a CPU; both compute in float32 or wider, also under autocast, and
            gradients of their gradients raise RuntimeError.

    Returns:
        (B, H, L, V) in the dtype of v.

    Raises:
        ValueError: an unknown kernel; numba with shapes that do not fit.
        ImportError: numba is not installed.
    """
    return delta_recurrence(q, k, v, g, v.new_empty(0, 0, 0, 0), v.new_empty(0, 0, 0, 0), kernel)


def delta_recurrence(q: Tensor, k: Tensor, v: Tensor, g: Tensor, a: Tensor, b: Tensor, kernel: str = "torch") -> Tensor:
    """Compute the recurrence above; a and b are (B, H, L, K), everything else as in `linear_recurrence`."""
    operator: Callable[..., Tensor] = recurrence_scan
    if kernel not in ("torch", "numba"):
        raise ValueError(unknown("recurrence kernel", kernel, ("torch", "numba")))
    if kernel == "numba":
        from tread_bench.model.ops.cpu.recurrence_operator import recurrence_numba as operator
    wide = torch.promote_types(v.dtype, torch.float32)
    return operator(*(x.to(wide).contiguous() for x in (q, k, v, g, a, b))).to(v.dtype)


def gated_delta_rule(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, kernel: str = "torch") -> Tensor:
    """Replace what the state holds for a key, after its decay and in part: S_t = S' + beta k_t (v_t - S'^T k_t)^T.

    Args:
        k: (B, H, L, K), unit vectors.
        g, beta: (B, H, L, 1), the latter in [0, 1]; everything else as in `linear_recurrence`.
    """
    written = k * beta
    return delta_recurrence(q, written, v, g, -k * g.exp(), written, kernel)


def prepare_recurrence(kernel: str) -> None:
    """Compile what a kernel needs, so that no training step waits for it."""
    if kernel == "numba":
        from tread_bench.model.ops.cpu.recurrence_operator import prepare

        prepare()
