"""Bi-WKV on a CPU: an operator around the loops in `wkv`. Imports numba. Tensors are (B, T, C), contiguous."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from tread_bench.model.ops.cpu.compiling import arrays, check_shapes, real_of, run_blocks
from tread_bench.model.ops.cpu.wkv import wkv_kernels
from tread_bench.model.ops.gradients import join_backward
from tread_bench.model.ops.wkv_torch import wkv_flops


@torch.library.custom_op("tread_bench::bi_wkv_numba", mutates_args=())
def bi_wkv_numba(w: Tensor, u: Tensor, k: Tensor, v: Tensor) -> Tensor:
    check_shapes({"w": w, "u": u, "k": k, "v": v}, k.shape[2:], k.shape[2:], k.shape, k.shape)
    y, (forward, _) = torch.empty_like(v), wkv_kernels(real_of(v))
    run_blocks(forward, len(v), v.shape[2], *arrays(w, u, k, v, y))
    return y


@torch.library.custom_op("tread_bench::bi_wkv_numba_backward", mutates_args=())
def _backward_op(grad: Tensor, w: Tensor, u: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of w, u, k and v."""
    grad_w, grad_u = (torch.empty(len(v), v.shape[2], dtype=torch.float64) for _ in range(2))
    grad_k, grad_v = torch.empty_like(k), torch.empty_like(v)
    _, backward = wkv_kernels(real_of(v))
    run_blocks(backward, len(v), v.shape[2], *arrays(grad, w, u, k, v, grad_w, grad_u, grad_k, grad_v))
    return grad_w.sum(0).to(v.dtype), grad_u.sum(0).to(v.dtype), grad_k, grad_v


@cache
def prepare() -> None:
    """Compile, or load from the disk, what float32 needs."""
    w, x = torch.zeros(1, device="cpu", dtype=torch.float32), torch.zeros(1, 1, 1, device="cpu", dtype=torch.float32)
    _backward_op(bi_wkv_numba(w, w, x, x), w, w, x, x)


join_backward("bi_wkv_numba", wkv_flops, lambda w, u, k, v: torch.empty_like(v))
