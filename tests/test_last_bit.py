"""The mode of tests in which different products of matrices have different last bits."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from tests.last_bit import LastBit

X = torch.randn(6, 19, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
WEIGHT, BIAS = X[0, :16].clone(), X[1, 0].clone()
OPERATORS = {
    "mm": lambda x: x[0] @ WEIGHT.to(x),
    "mv": lambda x: x[0] @ BIAS.to(x),
    "bmm": lambda x: x @ x.mT,
    "einsum": lambda x: torch.einsum("btd,bsd->bts", x, x),
    "linear": lambda x: functional.linear(x, WEIGHT.to(x), BIAS.to(x)),
    "convolution": lambda x: functional.conv1d(x, X[:4, :, :3].to(x)),
    "attention": lambda x: functional.scaled_dot_product_attention(x[None], x[None], x[None])[0],
}


def with_gradient(function, x):
    x = x.detach().requires_grad_()
    y = function(x)
    return y.detach(), *torch.autograd.grad(y.square().sum(), x)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", OPERATORS)
def test_a_product_changes_by_at_most_a_last_bit_and_always_by_the_same(name, dtype):
    plain = OPERATORS[name](X.to(dtype))
    with LastBit():
        first, second = (with_gradient(OPERATORS[name], X.to(dtype)) for _ in range(2))
        with torch.inference_mode():
            inferred = OPERATORS[name](X.to(dtype))
    assert all(map(torch.equal, first, second))
    assert torch.equal(inferred, first[0])
    up, down = (torch.nextafter(plain, torch.full_like(plain, end)) for end in (torch.inf, -torch.inf))
    assert ((first[0] == plain) | (first[0] == up) | (first[0] == down)).all()
    assert 0.2 < (first[0] != plain).float().mean() < 0.8
