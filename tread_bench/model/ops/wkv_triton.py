"""Bi-WKV (`ops.wkv`) as two Triton kernels for CUDA: one program per sample and block of channels.

In each kernel, a program walks the tokens forwards and backwards once and keeps its sums relative to their running
maximum, so that no spread of k can overflow. Imports triton. Tensors are (B, T, C), contiguous.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"
from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from tread_bench.model.ops.gradients import join_backward
from tread_bench.model.ops.wkv_torch import wkv_flops

CHANNELS = 32  # channels per program: one per thread of a warp


@triton.jit
def _step(scale, top, bottom, w, log, x, y):
    """Add a token with weight e^log: e^{-w} sums + e^log (x, y), relative to the new scale."""
    new = tl.maximum(scale - w, log)
    old, this = tl.exp(scale - w - new), tl.exp(log - new)
    return new, old * top + this * x, old * bottom + this * y


@triton.jit
def _forward_kernel(w_C, u_C, k_BTC, v_BTC, y_BTC, denominator, scale_BTC, T, C, BLOCK: tl.constexpr):
    channel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = channel < C
    w, u = tl.load(w_C + channel, inside, 0.0), tl.load(u_C + channel, inside, 0.0)
    first = tl.program_id(0).to(tl.int64) * T * C + channel
    zero = tl.zeros([BLOCK], w.dtype)

    # Forwards: sums over the tokens before each.
    m, n, d = zero - float("inf"), zero, zero
    for t in range(T):
        at = first + t * C
        tl.store(y_BTC + at, n, inside)
        tl.store(denominator + at, d, inside)
        tl.store(scale_BTC + at, m, inside)
        k, v = tl.load(k_BTC + at, inside, 0.0), tl.load(v_BTC + at, inside, 0.0)
        m, n, d = _step(m, n, d, w, k, v, 1.0)
    tl.debug_barrier()  # the next loop reads what was just written

    # Backwards: add the tokens after each and the token itself, at a common scale.
    m, n, d = zero - float("inf"), zero, zero
    for step in range(T):
        at = first + (T - 1 - step) * C
        k, v = tl.load(k_BTC + at, inside, 0.0), tl.load(v_BTC + at, inside, 0.0)
        m_before = tl.load(scale_BTC + at, inside, 0.0)
        scale = tl.maximum(tl.maximum(m_before, m), u + k)
        before, after, own = tl.exp(m_before - scale), tl.exp(m - scale), tl.exp(u + k - scale)
        top = before * tl.load(y_BTC + at, inside, 0.0) + after * n + own * v
        bottom = before * tl.load(denominator + at, inside, 0.0) + after * d + own
        tl.store(y_BTC + at, top / bottom, inside)
        tl.store(denominator + at, bottom, inside)
        tl.store(scale_BTC + at, scale, inside)
        m, n, d = _step(m, n, d, w, k, v, 1.0)


@triton.jit
def _backward_kernel(
    grad_y, w_C, u_C, k_BTC, v_BTC, y_BTC, denominator, scale_BTC, grad_w_BC, grad_u_BC, grad_k, grad_v, T, C,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Per side (n, d) as before, (p, q) the same with every term times its distance, (a, b) sums of the gradients."""
    channel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = channel < C
    w, u = tl.load(w_C + channel, inside, 0.0), tl.load(u_C + channel, inside, 0.0)
    sample = tl.program_id(0).to(tl.int64)
    first = sample * T * C + channel
    zero = tl.zeros([BLOCK], w.dtype)
    grad_w, grad_u = zero, zero
    for side in tl.static_range(2):
        m, n, d, p, q = zero - float("inf"), zero, zero, zero, zero
        g_m, a, b = zero - float("inf"), zero, zero
        for step in range(T):
            at = first + (step if side == 0 else T - 1 - step) * C
            k, v = tl.load(k_BTC + at, inside, 0.0), tl.load(v_BTC + at, inside, 0.0)
            y, scale = tl.load(y_BTC + at, inside, 0.0), tl.load(scale_BTC + at, inside, 0.0)
            g = tl.load(grad_y + at, inside, 0.0) / tl.load(denominator + at, inside, 1.0)

            # The gradient of w, through the distances.
            grad_w -= tl.exp(m - scale) * g * (p - y * q)

            # The gradients of v and k, through the outputs on the other side; the token's own term counts once.
            from_side = tl.exp(g_m + k)
            of_v, of_k = from_side * a, from_side * (v * a - b)
            if side == 0:
                own = tl.exp(u + k - scale) * g
                grad_u += own * (v - y)
                of_v, of_k = of_v + own, of_k + own * (v - y)
            else:
                of_v, of_k = of_v + tl.load(grad_v + at, inside, 0.0), of_k + tl.load(grad_k + at, inside, 0.0)
            tl.store(grad_v + at, of_v, inside)
            tl.store(grad_k + at, of_k, inside)

            # Move on by one token.
            decayed = tl.exp(m - w - tl.maximum(m - w, k))
            p, q = decayed * (p + n), decayed * (q + d)
            m, n, d = _step(m, n, d, w, k, v, 1.0)
            g_m, a, b = _step(g_m, a, b, w, -scale, g, g * y)
        tl.debug_barrier()  # the second side adds to what the first side wrote
    tl.store(grad_w_BC + sample * C + channel, grad_w, inside)
    tl.store(grad_u_BC + sample * C + channel, grad_u, inside)


@torch.library.custom_op("tread_bench::bi_wkv_triton", mutates_args=())
def bi_wkv_triton(w: Tensor, u: Tensor, k_BTC: Tensor, v_BTC: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return y, its denominator and the logarithm of the denominator's divisor, (B, T, C) each."""
    outputs = _empty_outputs(v_BTC)
    _forward_kernel[_programs(k_BTC)](w, u, k_BTC, v_BTC, *outputs, *k_BTC.shape[1:], BLOCK=CHANNELS, num_warps=1)
    return outputs


@torch.library.custom_op("tread_bench::bi_wkv_triton_backward", mutates_args=())
def _backward_op(
    grad_y: Tensor, w: Tensor, u: Tensor, k_BTC: Tensor, v_BTC: Tensor, y: Tensor, denominator: Tensor, scale: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of w, u, k and v."""
    batch, length, channels = k_BTC.shape
    inputs = grad_y, w, u, k_BTC, v_BTC, y, denominator, scale
    grad_w, grad_u = w.new_empty(batch, channels), w.new_empty(batch, channels)
    grad_k, grad_v = torch.empty_like(k_BTC), torch.empty_like(v_BTC)
    _backward_kernel[_programs(k_BTC)](
        *inputs, grad_w, grad_u, grad_k, grad_v, length, channels, BLOCK=CHANNELS, num_warps=1
    )
    return grad_w.sum(0), grad_u.sum(0), grad_k, grad_v


def _programs(k_BTC: Tensor) -> tuple[int, int]:
    return len(k_BTC), triton.cdiv(k_BTC.shape[2], CHANNELS)


def _empty_outputs(v_BTC: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return torch.empty_like(v_BTC), torch.empty_like(v_BTC), torch.empty_like(v_BTC)


join_backward("bi_wkv_triton", wkv_flops, lambda w, u, k, v: _empty_outputs(v), needs_result=True)
