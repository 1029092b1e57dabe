"""Bi-WKV, the linear attention of Vision-RWKV (Duan et al., arXiv 2403.02308, equation 3) and Diffusion-RWKV.

    y_t = (sum_{i != t} e^{k_i - (|t - i| - 1) w} v_i + e^{u + k_t} v_t) / (the same without v)

Shapes: T tokens, B batch, C channels.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tread_bench.core.names import unknown
from tread_bench.model.ops.wkv_torch import bi_wkv_torch


def bi_wkv(w: Tensor, u: Tensor, k: Tensor, v: Tensor, kernel: str = "torch") -> Tensor:
    """Compute the formula above; w may be negative, so that weights grow with distance.

    Args:
        w, u: (C,), the decay per token of distance, and a token's bonus for itself.
        k, v: (B, T, C), tokens in the order that |t - i| counts.
        kernel: "numba" needs a CPU, "triton" CUDA; "torch" runs anywhere, at T times their arithmetic.

    Returns:
        (B, T, C) in the dtype of v; computed in float32 or wider, also under autocast. Gradients of gradients raise
        RuntimeError.

    Raises:
        ValueError: an unknown kernel; numba with shapes that do not fit.
        ImportError: triton or numba is not installed.
    """
    # In float32 or wider, with the requested kernel.
    wide = torch.promote_types(v.dtype, torch.float32)
    arguments = [x.to(wide).contiguous() for x in (w, u, k, v)]
    if kernel == "triton":
        from tread_bench.model.ops.wkv_triton import bi_wkv_triton

        return bi_wkv_triton(*arguments)[0].to(v.dtype)
    if kernel == "numba":
        from tread_bench.model.ops.cpu.wkv_operator import bi_wkv_numba

        return bi_wkv_numba(*arguments).to(v.dtype)
    if kernel != "torch":
        raise ValueError(unknown("wkv kernel", kernel, ("torch", "numba", "triton")))
    return bi_wkv_torch(*arguments).to(v.dtype)


def prepare_wkv(kernel: str) -> None:
    """Compile what a kernel needs, so that no training step waits for it."""
    if kernel == "numba":
        from tread_bench.model.ops.cpu.wkv_operator import prepare

        prepare()
