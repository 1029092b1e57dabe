"""DiT's two branches on a CPU: matrix products by torch, everything between them compiled by Numba. Imports numba.

Shapes: B batch, N tokens, D width, H heads, M width of the MLP. float32 or float64, one dtype in all.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from tread_bench.model.ops.cpu.adaln import AdalnKernels, adaln_kernels
from tread_bench.model.ops.cpu.compiling import arrays, real_of, run_samples

EPSILON = 1e-6  # added to a variance, as DiT's norms have it


def attention_branch(x: Tensor, modulation: Sequence[Tensor], qkv: nn.Linear, proj: nn.Linear, heads: int) -> Tensor:
    """As `ops.adaln.attention_branch`."""
    _check(x, *modulation, qkv.weight, qkv.bias, proj.weight, proj.bias)
    return _AttentionBranch.apply(x, *modulation, qkv.weight, qkv.bias, proj.weight, proj.bias, heads)


def mlp_branch(x: Tensor, modulation: Sequence[Tensor], fc1: nn.Linear, fc2: nn.Linear) -> Tensor:
    """As `ops.adaln.mlp_branch`."""
    _check(x, *modulation, fc1.weight, fc1.bias, fc2.weight, fc2.bias)
    return _MlpBranch.apply(x, *modulation, fc1.weight, fc1.bias, fc2.weight, fc2.bias)


@cache
def prepare() -> None:
    """Compile, or load from the disk, what float32 needs."""
    layers = [
        nn.utils.skip_init(nn.Linear, size_in, size_out) for size_in, size_out in ((1, 3), (1, 1), (1, 1), (1, 1))
    ]
    one = torch.ones(1, 1, requires_grad=True)
    y = attention_branch(one.view(1, 1, 1), (one, one, one), layers[0], layers[1], heads=1)
    mlp_branch(y, (one, one, one), layers[2], layers[3]).sum().backward()


def _check(x: Tensor, *others: Tensor) -> None:
    """The loops check nothing themselves."""
    if not x.is_cpu or x.dtype not in (torch.float32, torch.float64):
        raise ValueError(f"kernel 'numba' takes float32 or float64 on a CPU, not {x.dtype} on {x.device}: {_WAY_OUT}")
    different = [other for other in others if other.dtype != x.dtype or not other.is_cpu]
    if different:
        found = f"{different[0].dtype} on {different[0].device}"
        raise ValueError(f"kernel 'numba' takes tensors of one dtype on a CPU, not {x.dtype} and {found}: {_WAY_OUT}")


_WAY_OUT = "build the backbone with kernels adaln: torch"


class _AttentionBranch(torch.autograd.Function):
    """With the backward pass in closed form."""

    @staticmethod
    def forward(ctx: Any, x, shift, scale, gate, w_qkv, b_qkv, w_proj, b_proj, heads: int) -> Tensor:
        kernels = adaln_kernels(real_of(x))
        x, gate = x.contiguous(), gate.contiguous()
        (batch, tokens, width), channels = x.shape, x.shape[2] // heads

        # Queries, keys and values of the modulated tokens, head by head.
        normed, mean, inverse = _norm(kernels, x, shift, scale)
        qkv = torch.mm(normed.view(-1, width), w_qkv.t()).view(batch, tokens, 3 * width)
        parts = x.new_empty(3, batch, heads, tokens, channels)
        run_samples(kernels.split, batch, *arrays(qkv, b_qkv, parts))
        q, k, v = parts.view(3, batch * heads, tokens, channels).unbind(0)

        # Attention.
        weights = torch.bmm(q, k.transpose(1, 2)).view(batch, heads, tokens, tokens)
        run_samples(kernels.softmax, batch, *arrays(weights), channels**-0.5)
        attended = torch.bmm(weights.view(-1, tokens, tokens), v).view(batch, heads, tokens, channels)
        joined = torch.empty_like(x)
        run_samples(kernels.join, batch, *arrays(attended, joined))

        # What it adds to the stream.
        update = torch.mm(joined.view(-1, width), w_proj.t()).view_as(x)
        ctx.save_for_backward(
            x, scale, gate, normed, mean, inverse, parts, weights, joined, update, w_qkv, w_proj, b_proj
        )
        return _gated(kernels, x, gate, update, b_proj)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor):
        (grad,) = grads
        _refuse_second_order()
        x, scale, gate, normed, mean, inverse, parts, weights, joined, update, w_qkv, w_proj, b_proj = ctx.saved_tensors
        kernels = adaln_kernels(real_of(x))
        _, batch, heads, tokens, channels = parts.shape
        grad = grad.contiguous()

        # Behind attention.
        grad_update, grad_gate, grad_b_proj = _gated_back(kernels, grad, gate, update, b_proj)
        flat = grad_update.view(-1, x.shape[2])
        grad_w_proj = torch.mm(flat.t(), joined.view_as(flat))
        grad_joined = torch.mm(flat, w_proj).view_as(x)

        # Attention.
        q, k, v = parts.view(3, batch * heads, tokens, channels).unbind(0)
        grad_attended = x.new_empty(batch, heads, tokens, channels)
        run_samples(kernels.join_back, batch, *arrays(grad_joined, grad_attended))
        grad_attended = grad_attended.view_as(v)
        grad_weights = torch.bmm(grad_attended, v.transpose(1, 2)).view_as(weights)
        run_samples(kernels.softmax_back, batch, *arrays(weights), channels**-0.5, *arrays(grad_weights))
        scores = grad_weights.view(-1, tokens, tokens)
        grad_parts = torch.empty_like(parts)
        to_q, to_k, to_v = grad_parts.view(3, batch * heads, tokens, channels).unbind(0)
        torch.bmm(scores, k, out=to_q)
        torch.bmm(scores.transpose(1, 2), q, out=to_k)
        torch.bmm(weights.view_as(scores).transpose(1, 2), grad_attended, out=to_v)

        # Before attention.
        grad_qkv = x.new_empty(batch, tokens, len(w_qkv))
        grad_b_qkv = x.new_empty(batch, len(w_qkv))
        run_samples(kernels.split_back, batch, *arrays(grad_parts, grad_qkv, grad_b_qkv))
        flat = grad_qkv.view(-1, len(w_qkv))
        grad_w_qkv = torch.mm(flat.t(), normed.view(-1, x.shape[2]))
        grad_normed = torch.mm(flat, w_qkv).view_as(x)
        grad_x, grad_shift, grad_scale = _norm_back(kernels, grad_normed, x, scale, mean, inverse, grad)
        modulation = (grad_shift, grad_scale, grad_gate)
        return grad_x, *modulation, grad_w_qkv, grad_b_qkv.sum(0), grad_w_proj, grad_b_proj, None


class _MlpBranch(torch.autograd.Function):
    """With the backward pass in closed form."""

    @staticmethod
    def forward(ctx: Any, x, shift, scale, gate, w_1, b_1, w_2, b_2) -> Tensor:
        kernels = adaln_kernels(real_of(x))
        x, gate = x.contiguous(), gate.contiguous()
        batch, tokens, width = x.shape

        # The hidden layer of the modulated tokens.
        normed, mean, inverse = _norm(kernels, x, shift, scale)
        hidden = torch.mm(normed.view(-1, width), w_1.t()).view(batch, tokens, len(w_1))
        active = torch.empty_like(hidden)
        run_samples(kernels.gelu, batch, *arrays(hidden, b_1, active))

        # What it adds to the stream.
        update = torch.mm(active.view(-1, len(w_1)), w_2.t()).view_as(x)
        ctx.save_for_backward(x, scale, gate, normed, mean, inverse, hidden, active, update, w_1, b_1, w_2, b_2)
        return _gated(kernels, x, gate, update, b_2)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor):
        (grad,) = grads
        _refuse_second_order()
        x, scale, gate, normed, mean, inverse, hidden, active, update, w_1, b_1, w_2, b_2 = ctx.saved_tensors
        kernels = adaln_kernels(real_of(x))
        batch, _, width = x.shape
        grad = grad.contiguous()

        # Behind the hidden layer.
        grad_update, grad_gate, grad_b_2 = _gated_back(kernels, grad, gate, update, b_2)
        flat = grad_update.view(-1, width)
        grad_w_2 = torch.mm(flat.t(), active.view(-1, len(w_1)))
        grad_active = torch.mm(flat, w_2).view_as(hidden)

        # The hidden layer, and before it.
        grad_hidden = torch.empty_like(hidden)
        grad_b_1 = x.new_empty(batch, len(w_1))
        run_samples(kernels.gelu_back, batch, *arrays(grad_active, hidden, b_1, grad_hidden, grad_b_1))
        flat = grad_hidden.view(-1, len(w_1))
        grad_w_1 = torch.mm(flat.t(), normed.view(-1, width))
        grad_normed = torch.mm(flat, w_1).view_as(x)
        grad_x, grad_shift, grad_scale = _norm_back(kernels, grad_normed, x, scale, mean, inverse, grad)
        return grad_x, grad_shift, grad_scale, grad_gate, grad_w_1, grad_b_1.sum(0), grad_w_2, grad_b_2


def _norm(kernels: AdalnKernels, x: Tensor, shift: Tensor, scale: Tensor) -> tuple[Tensor, ...]:
    """The modulated norm (B, N, D); means and inverse standard deviations (B, N)."""
    y = torch.empty_like(x)
    mean, inverse = x.new_empty(2, *x.shape[:2]).unbind(0)
    run_samples(kernels.norm, len(x), *arrays(x, shift, scale), EPSILON, *arrays(y, mean, inverse))
    return y, mean, inverse


def _norm_back(
    kernels: AdalnKernels, grad: Tensor, x: Tensor, scale: Tensor, mean: Tensor, inverse: Tensor, residual: Tensor
) -> tuple[Tensor, ...]:
    """Gradients of x, to which `residual` is added, of shift and of scale."""
    grad_x = torch.empty_like(x)
    grad_shift, grad_scale = x.new_empty(2, len(x), x.shape[2]).unbind(0)
    given = arrays(grad, x, scale, mean, inverse, residual)
    run_samples(kernels.norm_back, len(x), *given, *arrays(grad_x, grad_shift, grad_scale))
    return grad_x, grad_shift, grad_scale


def _gated(kernels: AdalnKernels, x: Tensor, gate: Tensor, update: Tensor, bias: Tensor) -> Tensor:
    y = torch.empty_like(x)
    run_samples(kernels.gate, len(x), *arrays(x, gate, update, bias, y))
    return y


def _gated_back(
    kernels: AdalnKernels, grad: Tensor, gate: Tensor, update: Tensor, bias: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of the update, the gate and the bias."""
    grad_update = torch.empty_like(grad)
    grad_gate, grad_bias = grad.new_empty(2, len(grad), grad.shape[2]).unbind(0)
    run_samples(kernels.gate_back, len(grad), *arrays(grad, gate, update, bias, grad_update, grad_gate, grad_bias))
    return grad_update, grad_gate, grad_bias.sum(0)


def _refuse_second_order() -> None:
    """A backward pass records its own gradients only for a second derivative, which loops would drop."""
    if torch.is_grad_enabled():
        raise NotImplementedError(f"kernel 'numba' has no second derivatives: {_WAY_OUT}")
