"""Linear recurrences on a CPU: operators around the loops in `recurrence`. Imports numba. Shapes: `ops.recurrence`."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from tread_bench.model.ops.cpu.compiling import arrays, real_of, run_items
from tread_bench.model.ops.cpu.recurrence import recurrence_kernels
from tread_bench.model.ops.gradients import join_backward
from tread_bench.model.ops.recurrence_torch import delta_flops, linear_flops


@torch.library.custom_op("tread_bench::linear_numba", mutates_args=())
def linear_numba(q: Tensor, k: Tensor, v: Tensor, g: Tensor) -> Tensor:
    """The recurrence without a and b, of contiguous tensors in float32 or float64."""
    return _forward(q, k, v, g, *_nothing(v))


@torch.library.custom_op("tread_bench::linear_numba_backward", mutates_args=())
def _linear_backward(grad: Tensor, q: Tensor, k: Tensor, v: Tensor, g: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of q, k, v and g."""
    return _backward(grad, q, k, v, g, *_nothing(v))[:4]


@torch.library.custom_op("tread_bench::delta_numba", mutates_args=())
def delta_numba(q: Tensor, k: Tensor, v: Tensor, g: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """The whole recurrence, of contiguous tensors in float32 or float64."""
    return _forward(q, k, v, g, a, b)


@torch.library.custom_op("tread_bench::delta_numba_backward", mutates_args=())
def _delta_backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, g: Tensor, a: Tensor, b: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of q, k, v, g, a and b."""
    return _backward(grad, q, k, v, g, a, b)


@cache
def prepare() -> None:
    """Compile, or load from the disk, what float32 needs."""
    x = torch.zeros(1, 1, 1, 1, device="cpu", dtype=torch.float32)
    _delta_backward(delta_numba(x, x, x, x, x, x), x, x, x, x, x, x)


def _nothing(v: Tensor) -> tuple[Tensor, Tensor]:
    """What stands for a and b that are left out."""
    return v.new_empty(0, 0, 0, 0), v.new_empty(0, 0, 0, 0)


def _forward(q: Tensor, k: Tensor, v: Tensor, g: Tensor, a: Tensor, b: Tensor) -> Tensor:
    _check_shapes(q, k, v, g, a, b)
    y, (forward, _) = torch.empty_like(v), recurrence_kernels(real_of(v))
    run_items(forward, len(v) * v.shape[1], *arrays(q, k, v, g, a, b, y))
    return y


def _check_shapes(q: Tensor, k: Tensor, v: Tensor, g: Tensor, a: Tensor, b: Tensor) -> None:
    """Raise ValueError where the loops, which check nothing, would leave the tensors."""
    channels, (samples, heads, length, _) = k.shape[3], v.shape
    of_keys = [(samples, count, length, channels) for count in (heads, 1)]
    of_decays = [(samples, heads, length, count) for count in (channels, 1)]
    of_delta = of_keys[0] if a.numel() else (0, 0, 0, 0)
    if not (q.shape == k.shape in of_keys and g.shape in of_decays and a.shape == b.shape == of_delta):
        shapes = ", ".join(str(tuple(x.shape)) for x in (q, k, v, g, a, b))
        raise ValueError(f"q, k, v, g, a and b do not fit one another: {shapes}")


def _backward(grad, q, k, v, g, a, b):
    """Each head's gradients; those that heads or channels share are summed here."""
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


@linear_numba.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, g: Tensor) -> Tensor:
    return torch.empty_like(v)


@delta_numba.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, g: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return torch.empty_like(v)


join_backward("linear_numba", linear_flops)
join_backward("delta_numba", delta_flops)
