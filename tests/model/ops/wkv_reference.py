"""Bi-WKV exactly as its formula, which every formulation is compared with, and what it is compared on."""

from __future__ import annotations

import torch
from torch import Tensor


def bi_wkv_reference(w: Tensor, u: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Compute `ops.wkv.bi_wkv` as a sum over all pairs of tokens, in the inputs' dtype (pass float64).

    Differentiable any number of times. Memory grows with B T^2 C.
    """
    places = torch.arange(k.shape[1], device=k.device)
    distance_TT1 = (places[:, None] - places).abs()[..., None]
    bias_TTC = torch.where(distance_TT1 == 0, u, -(distance_TT1 - 1) * w)
    weights_BTTC = (k[:, None] + bias_TTC).softmax(dim=2)
    return (weights_BTTC * v[:, None]).sum(2)


def inputs(batch, length, channels, k_scale, w_scale, seed=0):
    """w, u, k, v and a gradient of y, all of which float32 can hold."""
    generator = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.randn(shape, generator=generator)  # noqa: E731
    shape = batch, length, channels
    return (w_scale * draw(channels).abs(), draw(channels), k_scale * draw(*shape), draw(*shape)), draw(*shape)


def with_gradients(function, arguments, grad_y, dtype=torch.float32, **options):
    arguments = [x.to(dtype).requires_grad_() for x in arguments]
    y = function(*arguments, **options)
    return [y.detach(), *torch.autograd.grad(y, arguments, grad_y.to(dtype))]


def relative_errors(computed, exact):
    """Largest error over the largest value, of y and of the gradients of w, u, k and v; over 1 where all are 0."""
    errors = {}
    for name, one, other in zip(("y", "dw", "du", "dk", "dv"), computed, exact, strict=True):
        errors[name] = float((one.cpu() - other).abs().max() / (other.abs().max() or 1.0))
    return errors
