"""Bi-WKV (`ops.wkv`) in PyTorch as its formula says, for any device and any spread of exponents.

One token after another, y_t is a mean of v whose weights are a softmax over all T tokens. That is T times the
arithmetic of the recurrences that the other kernels compute, in float64, since float32 rounds an exponent of 100 by
4e-6. Shapes: B batch, T tokens, C channels.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from tread_bench.model.ops.gradients import join_backward

MACS = 6  # per token and channel, for numerator and denominator: a decay on each side, and the token's own term


@torch.library.custom_op("tread_bench::bi_wkv", mutates_args=())
def bi_wkv_torch(w: Tensor, u: Tensor, k_BTC: Tensor, v_BTC: Tensor) -> Tensor:
    means = [(weights * v_BTC.double()).sum(1) for weights, _ in _by_token(w, u, k_BTC)]
    return torch.stack(means, 1).to(v_BTC.dtype)


@torch.library.custom_op("tread_bench::bi_wkv_backward", mutates_args=())
def _bi_wkv_backward(
    grad_y: Tensor, w: Tensor, u: Tensor, k_BTC: Tensor, v_BTC: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of w, u, k and v."""
    grad_w, grad_u, grad_k, grad_v = (torch.zeros_like(x, dtype=torch.float64) for x in (w, u, k_BTC, v_BTC))
    for t, (weights, between) in enumerate(_by_token(w, u, k_BTC)):
        of_v = weights * grad_y[:, t, None]
        grad_v += of_v
        of_exponent = of_v * v_BTC - weights * (of_v * v_BTC).sum(1, keepdim=True)
        grad_k += of_exponent
        grad_u += of_exponent[:, t].sum(0)
        grad_w -= (of_exponent * between).sum((0, 1))
    grad_w, grad_u, grad_k, grad_v = (x.to(v_BTC.dtype) for x in (grad_w, grad_u, grad_k, grad_v))
    return grad_w, grad_u, grad_k, grad_v


def _by_token(w: Tensor, u: Tensor, k_BTC: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """For each token, the weights (B, T, C) of all, and how many tokens (T, 1) are between it and each."""
    w, u, k_BTC = w.double(), u.double(), k_BTC.double()
    place_T1 = torch.arange(k_BTC.shape[1], device=k_BTC.device).unsqueeze(1)
    for t in range(k_BTC.shape[1]):
        between = ((place_T1 - t).abs() - 1).clamp(min=0)
        yield (k_BTC + torch.where(place_T1 == t, u, -between * w)).softmax(1), between


def wkv_flops(w_shape, u_shape, k_shape, *args, **kwargs) -> int:  # type: ignore[no-untyped-def]
    """Count two flops per multiply-add; exponentials and the division are elementwise and do not count."""
    batch, length, channels = k_shape
    return 2 * MACS * batch * length * channels


join_backward("bi_wkv", wkv_flops, lambda w, u, k, v: torch.empty_like(v))
