"""Bi-WKV on a CPU: an operator around the loops in `wkv`. Imports numba. Tensors are (B, T, C), contiguous.

Where exponents spread further than float64 holds, the form in PyTorch takes over.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from tread_bench.model.ops.cpu.compiling import arrays, blocks_of, check_shapes, real_of, run_blocks
from tread_bench.model.ops.cpu.wkv import wkv_kernels
from tread_bench.model.ops.gradients import join_backward
from tread_bench.model.ops.wkv_torch import bi_wkv_torch, bi_wkv_torch_backward, wkv_flops


@torch.library.custom_op("tread_bench::bi_wkv_numba", mutates_args=())
def bi_wkv_numba(w: Tensor, u: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """y, and for each sample and block of channels in how many of them exponents spread too far."""
    check_shapes({"w": w, "u": u, "k": k, "v": v}, k.shape[2:], k.shape[2:], k.shape, k.shape)
    y, unsafe = _empty_outputs(v)
    forward, _ = wkv_kernels(real_of(v))
    run_blocks(forward, len(v), v.shape[2], *arrays(w, u, k, v, y, unsafe))
    if unsafe.any():
        y = bi_wkv_torch(w, u, k, v)
    return y, unsafe


@torch.library.custom_op("tread_bench::bi_wkv_numba_backward", mutates_args=())
def _backward_op(
    grad: Tensor, w: Tensor, u: Tensor, k: Tensor, v: Tensor, unsafe: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of w, u, k and v."""
    if unsafe.any():
        return bi_wkv_torch_backward(grad, w, u, k, v)
    grad_w, grad_u = (torch.empty(len(v), v.shape[2], dtype=torch.float64) for _ in range(2))
    grad_k, grad_v = torch.empty_like(k), torch.empty_like(v)
    _, backward = wkv_kernels(real_of(v))
    run_blocks(backward, len(v), v.shape[2], *arrays(grad, w, u, k, v, grad_w, grad_u, grad_k, grad_v))
    return grad_w.sum(0).to(v.dtype), grad_u.sum(0).to(v.dtype), grad_k, grad_v


def _empty_outputs(v: Tensor) -> tuple[Tensor, Tensor]:
    blocks, _ = blocks_of(v.shape[2])
    return torch.empty_like(v), v.new_empty(len(v) * blocks, dtype=torch.int64)


@cache
def prepare() -> None:
    """Compile, or load from the disk, what float32 needs."""
    w, x = torch.zeros(1, device="cpu", dtype=torch.float32), torch.zeros(1, 1, 1, device="cpu", dtype=torch.float32)
    y, unsafe = bi_wkv_numba(w, w, x, x)
    _backward_op(y, w, w, x, x, unsafe)


join_backward("bi_wkv_numba", wkv_flops, lambda w, u, k, v: _empty_outputs(v))
