"""Selective scan of Mamba (Gu and Dao, arXiv 2312.00752, Algorithm 2), for any device, and compiled for CPU or CUDA.

    h_t = exp(delta_t A) h_{t-1} + delta_t u_t B_t,    y_t = C_t h_t

Shapes: B batch, D channels, L length, N states per channel.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from tread_bench.core.names import unknown
from tread_bench.model.ops.scan_torch import scan_operator


def selective_scan(
    u: Tensor,
    delta: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None = None,
    z: Tensor | None = None,
    delta_bias: Tensor | None = None,
    delta_softplus: bool = False,
    reverse: bool = False,
    kernel: str = "torch",
) -> Tensor:
    """Compute the recurrence above over delta + delta_bias (through softplus), plus D u, times silu(z).

    Args:
        u, delta, z: (B, L, D).
        A: (D, N), negative. B, C: (B, L, N). D, delta_bias: (D,).
        reverse: from the last token to the first.
        kernel: "torch" and "numba" compute in float32 or wider, also in autocast; "numba" needs a CPU; "mamba_ssm" is
            mamba-ssm's fused CUDA kernel.

    Returns:
        (B, L, D) in the dtype of u. Gradients of gradients raise RuntimeError.

    Raises:
        ValueError: an unknown kernel; numba with shapes that do not fit. ImportError: mamba_ssm is not
            installed with its CUDA extension, or numba is not.
    """
    # The compiled operator scans in both directions, and takes no None.
    wide = torch.promote_types(u.dtype, torch.float32)
    if kernel == "numba":
        from tread_bench.model.ops.cpu.scan_operator import selective_scan_numba

        zeros = u.new_zeros(u.shape[2])
        z = u.new_empty(0, 0, 0) if z is None else z
        D, delta_bias = (zeros if one is None else one for one in (D, delta_bias))
        tensors = [one.to(wide).contiguous() for one in (u, delta, A, B, C, D, z, delta_bias)]
        return selective_scan_numba(*tensors, delta_softplus, reverse)[0].to(u.dtype)
    if kernel not in ("torch", "mamba_ssm"):
        raise ValueError(unknown("scan kernel", kernel, ("torch", "numba", "mamba_ssm")))

    # The others run forwards, over a reversed sequence if needed; the form in PyTorch over time-major data.
    if reverse:
        u, delta, B, C = (x.flip(1) for x in (u, delta, B, C))
        z = z if z is None else z.flip(1)
    if kernel == "mamba_ssm":
        from mamba_ssm.ops.selective_scan_interface import selective_scan_fn  # type: ignore[import-untyped]

        gate = None if z is None else z.mT
        y = selective_scan_fn(u.mT, delta.mT, A, B.mT, C.mT, D, gate, delta_bias, delta_softplus).mT
    else:
        u_LBD, delta_LBD, B_LBN, C_LBN = (x.to(wide).transpose(0, 1).contiguous() for x in (u, delta, B, C))
        if delta_bias is not None:
            delta_LBD = delta_LBD + delta_bias
        if delta_softplus:
            delta_LBD = F.softplus(delta_LBD)
        y = scan_operator(u_LBD, delta_LBD, A.to(wide), B_LBN, C_LBN)[0]
        if D is not None:
            y = torch.addcmul(y, u_LBD, D.to(wide))
        y = y.transpose(0, 1)
        if z is not None:
            y = y * F.silu(z.to(wide))
    return (y.flip(1) if reverse else y).to(u.dtype)


def prepare_scan(kernel: str) -> None:
    """Compile what a kernel needs, so that no training step waits for it."""
    if kernel == "numba":
        from tread_bench.model.ops.cpu.scan_operator import prepare

        prepare()
