"""Bi-WKV (`ops.wkv`) in PyTorch, with its own backward pass, on any device.

Shapes: T tokens, B batch, C channels; "2" is numerator and denominator, "sides" the tokens before and after each one.
Both sides are a recurrence S' = e^{-w} S + e^k (v, 1) with one decay per channel, run over time-major data. If the
exponents spread little, all are relative to the largest k of the sequence. Otherwise every step is relative to its own
maximum and in float64, since float32 rounds an exponent of 100 by 4e-6.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from tread_bench.model.ops.gradients import join_backward

SAFE_SPREAD = 60.0  # e^-60 is 1e-26: what float32 loses below 1e-38 then changes no result
MACS = 6  # per token and channel, for numerator and denominator: a decay on each side, and the token's own term


@torch.library.custom_op("tread_bench::bi_wkv", mutates_args=())
def bi_wkv_torch(w: Tensor, u: Tensor, k_TBC: Tensor, v_TBC: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return y and its denominator (T, B, C), and the sums (sides, T, 2, B, C), which the backward pass needs."""
    if _one_scale_will_do(w, u, k_TBC):
        weight = (k_TBC - k_TBC.amax(0)).exp_()
        x = torch.stack([weight * v_TBC, weight], dim=1)
        sums = _sums(x, w)
        total = (x * u.exp()).add_(sums[0]).add_(sums[1])
    else:
        total, sums, _, _ = with_running_scales(*(x.double() for x in (w, u, k_TBC, v_TBC)))
    y, denominator = total[:, 0] / total[:, 1], total[:, 1].clone()
    return y.to(v_TBC.dtype), denominator.to(v_TBC.dtype), sums.to(v_TBC.dtype)


@torch.library.custom_op("tread_bench::bi_wkv_backward", mutates_args=())
def _bi_wkv_backward(
    grad_y: Tensor, w: Tensor, u: Tensor, k_TBC: Tensor, v_TBC: Tensor, y_TBC: Tensor, denominator: Tensor, sums: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of w, u, k and v.

    Weights depend on |t - i|, so the adjoint of the sums is the same pair of sums, over the gradients g of numerator
    and denominator. There are |s - i| - 1 tokens t between i and s, so sum_t before_t(x) after_t(g) is the gradient of
    -w.
    """
    if not _one_scale_will_do(w, u, k_TBC):
        gradients = gradients_with_running_scales(*(x.double() for x in (grad_y, w, u, k_TBC, v_TBC)))
        grad_w, grad_u, grad_k, grad_v = (x.to(v_TBC.dtype, copy=True) for x in gradients)
        return grad_w, grad_u, grad_k, grad_v
    g = _gradients(grad_y, y_TBC, denominator)
    weight, own = (k_TBC - k_TBC.amax(0)).exp_(), u.exp()
    g_sums = _sums(g, w)
    grad_x = (g * own).add_(g_sums[0]).add_(g_sums[1]).mul_(weight.unsqueeze(1))
    grad_w = _across(sums, g_sums) * -torch.exp(-w)
    return grad_w, *_of_u_k_v(own * weight, g, grad_x, v_TBC)


def gradients_with_running_scales(
    grad_y: Tensor, w: Tensor, u: Tensor, k_TBC: Tensor, v_TBC: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the gradients of w, u, k and v for any spread of exponents, in the inputs' dtype (pass float64)."""
    total, sums, m, scale = with_running_scales(w, u, k_TBC, v_TBC)  # a float32 y would cancel against v
    g = _gradients(grad_y, total[:, 0] / total[:, 1], total[:, 1])
    n = _running_max(-scale, w)
    log_own = u + k_TBC - scale
    g_sums = _scaled_sums(g, -scale, n, w)
    grad_x = _combine(g_sums, n + k_TBC, g, log_own)
    grad_w = -_across(sums * (m + n.flip(0) - w).exp().unsqueeze(2), g_sums)
    return grad_w, *_of_u_k_v(log_own.exp(), g, grad_x, v_TBC)


def _of_u_k_v(own_TBC: Tensor, g: Tensor, grad_x: Tensor, v_TBC: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of u, k and v from g and from the gradients of the summands of both, (T, 2, B, C)."""
    grad_u = (own_TBC * (g[:, 0] * v_TBC + g[:, 1])).sum((0, 1))
    return grad_u, torch.addcmul(grad_x[:, 1], v_TBC, grad_x[:, 0]), grad_x[:, 0].contiguous()


def _gradients(grad_y: Tensor, y_TBC: Tensor, denominator: Tensor) -> Tensor:
    """Gradients of numerator and denominator (T, 2, B, C)."""
    return torch.stack([grad_y, -grad_y * y_TBC], dim=1).div_(denominator.unsqueeze(1))


def _one_scale_will_do(w: Tensor, u: Tensor, k_TBC: Tensor) -> bool:
    """Whether exponents relative to the largest k neither overflow nor vanish; False if one is not finite."""
    spread = (k_TBC.amax(0) - k_TBC.amin(0)).amax(0) + u.abs() + w.abs() * len(k_TBC)
    return bool((spread <= SAFE_SPREAD).all())


def _sums(x_T2BC: Tensor, w: Tensor) -> Tensor:
    """(sides, T, 2, B, C): sum_{i < t} and sum_{i > t} of e^{-(|t - i| - 1) w} x_i."""
    sums = x_T2BC.new_empty(2, *x_T2BC.shape)
    decay = torch.exp(-w).expand_as(x_T2BC[0]).contiguous()
    for steps, rows in _sides(sums, x_T2BC):
        steps[0].zero_()
        for before, after, x in zip(steps, steps[1:], rows, strict=False):
            torch.addcmul(x, before, decay, out=after)
    return sums


def _scaled_sums(values_T2BC: Tensor, log_TBC: Tensor, m: Tensor, w: Tensor) -> Tensor:
    """The sums of e^{log} values, with those of side s and token t divided by e^{m[s, t]}."""
    sums = values_T2BC.new_empty(2, *values_T2BC.shape)
    for (steps, rows), (tops, logs) in zip(_sides(sums, values_T2BC), _sides(m, log_TBC), strict=True):
        steps[0].zero_()
        for i in range(len(rows) - 1):
            torch.mul(steps[i], (tops[i] - w - tops[i + 1]).exp_(), out=steps[i + 1])
            steps[i + 1].addcmul_(rows[i], (logs[i] - tops[i + 1]).exp_())
    return sums


def _running_max(log_TBC: Tensor, w: Tensor) -> Tensor:
    """(sides, T, B, C): the largest exponent in each sum; -inf if the sum is empty."""
    m = log_TBC.new_full((2, *log_TBC.shape), -torch.inf)
    for tops, logs in _sides(m, log_TBC):
        for before, after, log in zip(tops, tops[1:], logs, strict=False):
            torch.maximum(before - w, log, out=after)
    return m


def with_running_scales(w: Tensor, u: Tensor, k_TBC: Tensor, v_TBC: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return numerator and denominator (T, 2, B, C) divided by e^scale, the sums divided by e^m, m and scale."""
    values = torch.stack([v_TBC, torch.ones_like(v_TBC)], dim=1)
    m = _running_max(k_TBC, w)
    scale = torch.maximum(m.amax(0), u + k_TBC)
    sums = _scaled_sums(values, k_TBC, m, w)
    return _combine(sums, m - scale, values, u + k_TBC - scale), sums, m, scale


def _combine(sums: Tensor, log_scale: Tensor, values_T2BC: Tensor, log_own: Tensor) -> Tensor:
    """Sum of both sides and the token's own term (T, 2, B, C)."""
    own = values_T2BC * log_own.exp().unsqueeze(1)
    return own + (sums * log_scale.exp().unsqueeze(2)).sum(0)


def _across(sums: Tensor, g_sums: Tensor) -> Tensor:
    """sum_t before_t(x) after_t(g) + after_t(x) before_t(g), also summed over the batch: (C,)."""
    return sum((x * g).sum((0, 1, 2)) for x, g in zip(sums, reversed(g_sums.unbind(0)), strict=True))


def _sides(out: Tensor, rows: Tensor) -> list[tuple[Sequence[Tensor], Sequence[Tensor]]]:
    """Per side, what is written and read at each step: forwards from the first token, backwards from the last."""
    read = rows.unbind(0)
    return [(out[0].unbind(0), read), (out[1].unbind(0)[::-1], read[::-1])]


def _empty_outputs(w: Tensor, u: Tensor, k_TBC: Tensor, v_TBC: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    length, *rest = k_TBC.shape
    return torch.empty_like(v_TBC), torch.empty_like(v_TBC), v_TBC.new_empty(2, length, 2, *rest)


def wkv_flops(w_shape, u_shape, k_shape, *args, **kwargs) -> int:  # type: ignore[no-untyped-def]
    """Count two flops per multiply-add; exponentials and the division are elementwise and do not count."""
    length, batch, channels = k_shape
    return 2 * MACS * length * batch * channels


join_backward("bi_wkv", wkv_flops, _empty_outputs, needs_result=True)
