"""Mamba's causal depthwise convolution (Gu and Dao, arXiv 2312.00752, figure 3), followed by silu."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def causal_conv(x: Tensor, weight: Tensor, bias: Tensor | None, reverse: bool = False, kernel: str = "torch") -> Tensor:
    """Compute silu(bias_d + sum_k weight_dk x_{t - K + 1 + k, d}), with zeros before the first token.

    Args:
        x: (B, L, D). weight: (D, K). bias: (D,); None, without "numba": none.
        reverse: from the last token to the first.
        kernel: same as for the scan (`ops.scan`): "numba" computes in float32 or wider, also under autocast.

    Returns:
        (B, L, D).
    """
    if kernel == "numba":
        assert bias is not None, "the compiled convolution adds one"
        from tread_bench.model.ops.cpu.scan_operator import causal_conv_numba

        wide = torch.promote_types(x.dtype, torch.float32)
        return causal_conv_numba(*(one.to(wide).contiguous() for one in (x, weight, bias)), reverse).to(x.dtype)
    taps = weight.shape[1]
    x_BDL = x.flip(1).mT if reverse else x.mT
    # Computed over L + K - 1 positions and cut off, as released.
    y = F.silu(F.conv1d(x_BDL, weight.unsqueeze(1), bias, padding=taps - 1, groups=len(weight))[..., : x.shape[1]]).mT
    return y.flip(1) if reverse else y
