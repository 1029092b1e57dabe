"""The recurrence of the selective scan (`ops.scan`) in PyTorch, with its own backward pass, on any device.

Shapes: B batch, D channels, L length, N states per channel. It runs over time-major data with the state (B, N, D)
updated in place. It keeps the state before every `CHUNK`-th step, and its backward pass recomputes the states between,
so that no (B, L, D, N) tensor ever exists.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tread_bench.model.ops.gradients import full_precision, join_backward

CHUNK = 16  # steps between stored states


@torch.library.custom_op("tread_bench::selective_scan", mutates_args=())
def scan_operator(u_LBD: Tensor, delta_LBD: Tensor, A: Tensor, B_LBN: Tensor, C_LBN: Tensor) -> tuple[Tensor, Tensor]:
    """y (L, B, D) and the states (ceil(L / CHUNK), B, N, D) before every CHUNK-th step."""
    y_LBD, states = _empty_outputs(u_LBD, A)
    a_BND, h_BND, A_ND = torch.empty_like(states[0]), torch.zeros_like(states[0]), A.T.contiguous()
    x_LBD = delta_LBD * u_LBD
    steps = zip(_rows(delta_LBD), _rows(x_LBD), _columns(B_LBN), _rows(C_LBN), _rows(y_LBD), strict=True)
    with full_precision(u_LBD):
        for t, (delta_t, x_t, B_t, C_t, y_t) in enumerate(steps):
            if t % CHUNK == 0:
                states[t // CHUNK] = h_BND
            torch.mul(delta_t, A_ND, out=a_BND).exp_()
            h_BND.mul_(a_BND).addcmul_(x_t, B_t)
            torch.bmm(C_t, h_BND, out=y_t)
    return y_LBD, states


@torch.library.custom_op("tread_bench::selective_scan_backward", mutates_args=())
def _scan_backward(
    grad_y: Tensor, u_LBD: Tensor, delta_LBD: Tensor, A: Tensor, B_LBN: Tensor, C_LBN: Tensor, states: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of u, delta, A, B and C, chunk by chunk from the end; g is the gradient of the state."""
    x_LBD, A_ND = delta_LBD * u_LBD, A.T.contiguous()
    grad_x, grad_delta, grad_B, grad_C = (torch.empty_like(v) for v in (x_LBD, delta_LBD, B_LBN, C_LBN))
    g_BND, grad_A_BND = torch.zeros_like(states[0]), torch.zeros_like(states[0])
    a, h = states.new_empty(CHUNK, *states.shape[1:]), states.new_empty(CHUNK + 1, *states.shape[1:])
    with full_precision(u_LBD):
        for chunk in reversed(range(len(states))):
            # The steps of the chunk.
            now = slice(chunk * CHUNK, (chunk + 1) * CHUNK)
            delta, x, B, C, gy, gx, gdelta = (
                _rows(v[now]) for v in (delta_LBD, x_LBD, B_LBN, C_LBN, grad_y, grad_x, grad_delta)
            )
            gB, gC = _columns(grad_B[now]), _columns(grad_C[now])

            # Recompute the forward pass: decays a, states h, and the gradient of C.
            h[0] = states[chunk]
            for k in range(len(x)):
                torch.mul(delta[k], A_ND, out=a[k]).exp_()
                torch.mul(h[k], a[k], out=h[k + 1]).addcmul_(x[k], B[k].mT)
                torch.bmm(h[k + 1], gy[k].mT, out=gC[k])

            # Backward through the recurrence.
            for k in reversed(range(len(x))):
                g_BND.addcmul_(C[k].mT, gy[k])
                torch.bmm(g_BND, x[k].mT, out=gB[k])
                torch.bmm(B[k], g_BND, out=gx[k])
                h[k].mul_(g_BND.mul_(a[k]))  # h[k] becomes the gradient of delta_t A
                grad_A_BND.addcmul_(h[k], delta[k])
                torch.sum(h[k].mul_(A_ND), 1, keepdim=True, out=gdelta[k])
    grad_delta.addcmul_(grad_x, u_LBD)
    return grad_x.mul_(delta_LBD), grad_delta, grad_A_BND.sum(0).T.contiguous(), grad_B, grad_C


def _empty_outputs(u_LBD: Tensor, A: Tensor) -> tuple[Tensor, Tensor]:
    length, batch, width = u_LBD.shape
    return torch.empty_like(u_LBD), u_LBD.new_empty(-(-length // CHUNK), batch, A.shape[1], width)


def _rows(v_LBX: Tensor) -> tuple[Tensor, ...]:
    """One view (B, 1, X) per step."""
    return v_LBX.unsqueeze(2).unbind(0)


def _columns(v_LBX: Tensor) -> tuple[Tensor, ...]:
    """One view (B, X, 1) per step."""
    return v_LBX.unsqueeze(3).unbind(0)


def scan_flops(u_shape, delta_shape, A_shape, *args, **kwargs) -> int:  # type: ignore[no-untyped-def]
    """Count three multiply-adds per token, channel and state, two flops each: a h, x B and C h."""
    return 2 * 3 * math.prod(u_shape) * A_shape[1]


join_backward("selective_scan", scan_flops, lambda u, delta, A, *others: _empty_outputs(u, A))
