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

from tread_bench.model.ops.cpu.compiling import arrays, blocks_of, real_of, run_blocks
from tread_bench.model.ops.cpu.conv import conv_kernels
from tread_bench.model.ops.cpu.scan import CHUNK, scan_kernels
from tread_bench.model.ops.gradients import join_backward
from tread_bench.model.ops.scan_torch import scan_flops


def selective_scan_numba(
    u: Tensor,
    delta: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None,
    z: Tensor | None,
    delta_bias: Tensor | None,
    delta_softplus: bool,
    reverse: bool,
) -> Tensor:
    """`ops.scan.selective_scan`, all of it in one operator."""
    # What is left out, as a tensor: an operator takes no None.
    (batch, length, channels), states = u.shape, A.shape[1]
    D, delta_bias = (u.new_zeros(channels) if v is None else v for v in (D, delta_bias))
    z_shape = (batch, length, channels) if z is not None else (0, 0, 0)
    z = u.new_empty(z_shape) if z is None else z

    # One kernel, over inputs of these shapes.
    expected = {
        "u": (u, u.shape),
        "delta": (delta, u.shape),
        "A": (A, (channels, states)),
        "B": (B, (batch, length, states)),
        "C": (C, (batch, length, states)),
        "D": (D, (channels,)),
        "z": (z, z_shape),
        "delta_bias": (delta_bias, (channels,)),
    }
    return _scan(*_checked(expected), delta_softplus, reverse)[0].to(u.dtype)


def causal_conv_numba(x: Tensor, weight: Tensor, bias: Tensor, reverse: bool) -> Tensor:
    """`ops.conv.causal_conv` in one operator."""
    channels, taps = x.shape[2], weight.shape[1]
    expected = {"x": (x, x.shape), "weight": (weight, (channels, taps)), "bias": (bias, (channels,))}
    return _conv(*_checked(expected), reverse).to(x.dtype)


@cache
def prepare() -> None:
    """Compile, or load from the disk, what float32 needs."""
    zeros = partial(torch.zeros, dtype=torch.float32, device="cpu")
    x, square, row = zeros(1, 1, 1), zeros(1, 1), zeros(1)
    tensors = (x, x, square, x, x, row, x, row)
    y, *kept = _scan(*tensors, True, False)
    _scan_backward(y, *tensors, *kept, True, False)
    _conv_backward(_conv(x, square, row, False), x, square, row, False)


def _checked(expected: dict[str, tuple[Tensor, tuple[int, ...]]]) -> list[Tensor]:
    """As the loops need them, which check nothing themselves; in the first one's dtype, float32 or wider."""
    first, _ = next(iter(expected.values()))
    wide = torch.promote_types(first.dtype, torch.float32)
    for name, (tensor, shape) in expected.items():
        if not tensor.is_cpu and not tensor.is_meta:
            raise ValueError(f"kernel 'numba' needs CPU tensors, {name} is on {tensor.device}: choose kernel 'torch'")
        if tensor.shape != shape:
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}, must have {tuple(shape)}")
    return [tensor.to(wide).contiguous() for tensor, _ in expected.values()]


@torch.library.custom_op("tread_bench::selective_scan_numba", mutates_args=())
def _scan(
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
    """The result; that before the gate, where there is one; the states before every `CHUNK`-th step but the first."""
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
def _conv(x: Tensor, weight: Tensor, bias: Tensor, reverse: bool) -> Tensor:
    """(B, L, D)."""
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
