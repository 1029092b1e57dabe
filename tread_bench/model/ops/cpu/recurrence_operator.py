"""Linear recurrences (`ops.recurrence`) on a CPU: an operator around the loops in `recurrence`. Imports numba."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from tread_bench.model.ops.cpu.compiling import arrays, check_shapes, real_of, run_items
from tread_bench.model.ops.cpu.recurrence import recurrence_kernels
from tread_bench.model.ops.gradients import join_backward
from tread_bench.model.ops.recurrence_torch import recurrence_flops


@torch.library.custom_op("tread_bench::recurrence_scan_numba", mutates_args=())
def recurrence_numba(q: Tensor, k: Tensor, v: Tensor, g: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """The recurrence, of contiguous tensors in float32 or float64; a and b are empty without a delta rule.

    Raises:
        ValueError: the loops, which check nothing, would leave the tensors.
    """
    channels, (samples, heads, length, _) = k.shape[3], v.shape
    of_keys = (samples, heads if k.shape[1] > 1 else 1, length, channels)
    of_decays = (samples, heads, length, channels if g.shape[3] > 1 else 1)
    of_delta = (samples, heads, length, channels) if a.numel() else a.shape
    tensors = {"q": q, "k": k, "v": v, "g": g, "a": a, "b": b}
    check_shapes(tensors, of_keys, of_keys, v.shape, of_decays, of_delta, of_delta)
    y, (forward, _) = torch.empty_like(v), recurrence_kernels(real_of(v))
    run_items(forward, samples * heads, *arrays(q, k, v, g, a, b, y))
    return y


@torch.library.custom_op("tread_bench::recurrence_scan_numba_backward", mutates_args=())
def _backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, g: Tensor, a: Tensor, b: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of all inputs: each head's own; those that heads or channels share are summed here."""
    _, backward = recurrence_kernels(real_of(v))
    by_head = (*v.shape[:3], k.shape[3])
    grad_q, grad_k, grad_g = (v.new_empty(by_head) for _ in range(3))
    grad_v, grad_a, grad_b = (torch.empty_like(x) for x in (v, a, b))
    outputs = (grad_q, grad_k, grad_v, grad_g, grad_a, grad_b)
    run_items(backward, len(v) * v.shape[1], *arrays(grad, q, k, v, g, a, b, *outputs))
    if k.shape[1] < v.shape[1]:
        grad_q, grad_k = (x.sum(1, keepdim=True) for x in (grad_q, grad_k))
    if g.shape[3] < k.shape[3]:
        grad_g = grad_g.sum(3, keepdim=True)
    return grad_q, grad_k, grad_v, grad_g, grad_a, grad_b


@cache
def prepare() -> None:
    """Compile, or load from the disk, what float32 needs."""
    x = torch.zeros(1, 1, 1, 1, device="cpu", dtype=torch.float32)
    _backward(recurrence_numba(x, x, x, x, x, x), x, x, x, x, x, x)


join_backward("recurrence_scan_numba", recurrence_flops, lambda q, k, v, *others: torch.empty_like(v))
