"""Mamba's convolution: both formulations against a sum over taps in float64, and laws."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tread_bench.model.ops.conv import causal_conv

every_kernel = pytest.mark.parametrize("kernel", ["torch", "numba"])


def inputs(length, batch=2, channels=5, taps=4):
    """x, weight, bias and a gradient of the result, in float64."""
    generator = torch.Generator().manual_seed(length)
    shapes = (batch, length, channels), (channels, taps), (channels,), (batch, length, channels)
    return [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]


def by_hand(x, weight, bias, reverse=False):
    if reverse:
        return by_hand(x.flip(1), weight, bias).flip(1)
    taps = weight.shape[1]
    padded = torch.cat([x.new_zeros(len(x), taps - 1, x.shape[2]), x], dim=1)
    return F.silu(bias + sum(weight[:, k] * padded[:, k : k + x.shape[1]] for k in range(taps)))


def with_gradients(conv, x, weight, bias, grad, **options):
    leaves = [v.clone().requires_grad_() for v in (x, weight, bias)]
    y = conv(*leaves, **options)
    return y.detach(), *torch.autograd.grad(y, leaves, grad)


@every_kernel
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("length", "channels"), [(1, 5), (3, 5), (4, 88), (37, 200)])
def test_it_is_the_sum_over_taps_with_every_gradient(length, channels, reverse, kernel):
    values = inputs(length, channels=channels)
    exact = with_gradients(by_hand, *values, reverse=reverse)
    for dtype, limit in ((torch.float64, 1e-13), (torch.float32, 1e-5)):
        computed = with_gradients(causal_conv, *(v.to(dtype) for v in values), reverse=reverse, kernel=kernel)
        for one, other in zip(computed, exact, strict=True):
            assert (one - other).abs().max() <= limit * other.abs().max()
