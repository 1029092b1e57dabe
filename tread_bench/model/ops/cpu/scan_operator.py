"""Mamba's convolution and selective scan on a CPU: operators around the loops in `conv` and `scan`. Imports numba.

Shapes: B batch, L length, D channels, N states per channel, K taps. Operators take contiguous tensors of one dtype,
float32 or float64.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math
from functools import cache, partial

import torch
from torch import Tensor

from tread_bench.model.ops.cpu.compiling import arrays, blocks_of, check_shapes, real_of, run_blocks
from tread_bench.model.ops.cpu.conv import conv_kernels
from tread_bench.model.ops.cpu.scan import CHUNK, scan_kernels
from tread_bench.model.ops.gradients import join_backward
from tread_bench.model.ops.scan_torch import scan_flops


@cache
def prepare() -> None:
    """Compile, or load from the disk, what float32 needs."""
    zeros = partial(torch.zeros, dtype=torch.float32, device="cpu")
    x, square, row = zeros(1, 1, 1), zeros(1, 1), zeros(1)
    tensors = (x, x, square, x, x, row, x, row)
    y, *kept = selective_scan_numba(*tensors, True, False)
    _scan_backward(y, *tensors, *kept, True, False)
    _conv_backward(causal_conv_numba(x, square, row, False), x, square, row, False)


@torch.library.custom_op("tread_bench::selective_scan_numba", mutates_args=())
def selective_scan_numba(
    u: Tensor,
    delta: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor,
    z: Tensor,
    bias: Tensor,
    soft: bool,
    reverse: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """The result; that before the gate, where there is one; the states before every `CHUNK`-th step but the first.

    All of `ops.scan.selective_scan` in one; z is empty without a gate.
    """
    tensors = {"u": u, "delta": delta, "A": A, "B": B, "C": C, "D": D, "z": z, "delta_bias": bias}
    of_channel, of_state = u.shape[2:], (*u.shape[:2], A.shape[1])
    gate = u.shape if z.numel() else z.shape
    check_shapes(tensors, u.shape, u.shape, (*of_channel, A.shape[1]), of_state, of_state, of_channel, gate, of_channel)
    outputs = _empty_outputs(u, A, z)
    inputs = arrays(u, delta, A.T.contiguous(), B, C, D, z, bias)
    forward, _ = scan_kernels(real_of(u))
    run_blocks(forward, len(u), u.shape[2], *inputs, soft, reverse, *arrays(*outputs))
    return outputs


@torch.library.custom_op("tread_bench::selective_scan_numba_backward", mutates_args=())
def _scan_backward(
    grad: Tensor, u: Tensor, delta: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor, z: Tensor, bias: Tensor,
    y: Tensor, states: Tensor, soft: bool, reverse: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Gradients of the eight tensors; those that samples or blocks of channels share are summed here."""
    batch, (blocks, _) = len(u), blocks_of(u.shape[2])
    inputs = arrays(grad, u, delta, A.T.contiguous(), B, C, D, z, bias)
    grad_u, grad_delta, grad_z = (torch.empty_like(v) for v in (u, delta, z))
    grad_A, grad_D, grad_bias = (u.new_empty(batch, *v.shape) for v in (A.T, D, bias))
    grad_B, grad_C = (u.new_empty(blocks, *v.shape) for v in (B, C))
    outputs = arrays(grad_u, grad_delta, grad_A, grad_B, grad_C, grad_D, grad_z, grad_bias)
    _, backward = scan_kernels(real_of(u))
    run_blocks(backward, batch, u.shape[2], *inputs, soft, reverse, *arrays(y, states), *outputs)
    shared = (grad_A.sum(0).T.contiguous(), grad_B.sum(0), grad_C.sum(0), grad_D.sum(0))
    return grad_u, grad_delta, *shared, grad_z, grad_bias.sum(0)


@torch.library.custom_op("tread_bench::causal_conv_numba", mutates_args=())
def causal_conv_numba(x: Tensor, weight: Tensor, bias: Tensor, reverse: bool) -> Tensor:
    """`ops.conv.causal_conv` in one operator."""
    check_shapes({"x": x, "weight": weight, "bias": bias}, x.shape, (x.shape[2], weight.shape[1]), x.shape[2:])
    y, (forward, _) = torch.empty_like(x), conv_kernels(real_of(x))
    run_blocks(forward, len(x), x.shape[2], *arrays(x, weight.T.contiguous(), bias), reverse, *arrays(y))
    return y


@torch.library.custom_op("tread_bench::causal_conv_numba_backward", mutates_args=())
def _conv_backward(
    grad: Tensor, x: Tensor, weight: Tensor, bias: Tensor, reverse: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of x, weight and bias."""
    batch, (_, backward) = len(x), conv_kernels(real_of(x))
    grad_x, grad_weight, grad_bias = (
        x.new_empty(shape) for shape in (x.shape, (batch, *weight.T.shape), (batch, *bias.shape))
    )
    inputs, outputs = arrays(grad, x, weight.T.contiguous(), bias), arrays(grad_x, grad_weight, grad_bias)
    run_blocks(backward, batch, x.shape[2], *inputs, reverse, *outputs)
    return grad_x, grad_weight.sum(0).T.contiguous(), grad_bias.sum(0)


def _empty_outputs(u: Tensor, A: Tensor, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    batch, length, channels = u.shape
    kept = max(length - 1, 0) // CHUNK
    return torch.empty_like(u), torch.empty_like(z), u.new_empty(batch, kept, A.shape[1], channels)


def conv_flops(x_shape, weight_shape, *args, **kwargs) -> int:
    """As the form in PyTorch is counted, which computes K - 1 positions more and cuts them off."""
    return 2 * x_shape[0] * (x_shape[1] + weight_shape[1] - 1) * math.prod(weight_shape)


join_backward("selective_scan_numba", scan_flops, lambda u, _, A, B, C, D, z, *others: _empty_outputs(u, A, z))
join_backward("causal_conv_numba", conv_flops, lambda x, *others: torch.empty_like(x))
