from __future__ import annotations

from functools import partial

import pytest
import torch

from tests.backbones import networks
from tread_bench import Route
from tread_bench.backbones.dit.network import LinearAttention
from tread_bench.core.describe.families import make_spec
from tread_bench.core.numbers.costs import cost_figures

FAMILY = "DiT"
SMALL = networks.SMALL[FAMILY]
small = partial(networks.small, FAMILY)


def test_xl_routed_forward_costs_what_the_method_says():
    family, spec = make_spec("DiT-XL/2")
    cost = cost_figures(family, spec, [Route(2, -4, 0.5)])
    assert cost.forward_macs / cost.dense_forward_macs == pytest.approx(0.583, abs=5e-4)
    assert cost.tokens_per_block == [256] * 2 + [128] * 23 + [256] * 3


def test_linear_attention_is_its_formula_with_every_gradient():
    """Token by token: the values, weighted by relu(q) relu(k)^T over the sum of these weights."""
    layer = LinearAttention(12, num_heads=3).double()
    x = torch.randn(2, 7, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()

    def by_hand(x):
        q, k, v = (part.unflatten(2, (3, 4)) for part in (x @ layer.qkv.weight.T + layer.qkv.bias).chunk(3, dim=2))
        weights = torch.einsum("bihe,bjhe->bhij", q.clamp(min=0), k.clamp(min=0))
        y = torch.einsum("bhij,bjhe->bihe", weights, v) / (weights.sum(-1).mT.unsqueeze(-1) + 1e-15)
        return y.flatten(2) @ layer.proj.weight.T + layer.proj.bias

    results = []
    for function in (layer, by_hand):
        y = function(x)
        results.append([y, *torch.autograd.grad(y.square().sum(), [x, *layer.parameters()])])
    for computed, expected in zip(*results, strict=True):
        torch.testing.assert_close(computed, expected, rtol=1e-9, atol=1e-11)


def test_linear_attention_sees_a_set_and_survives_queries_without_weight():
    layer = LinearAttention(12, num_heads=3)
    x = torch.randn(2, 7, 12, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(layer(x)[:, [3, 1]], layer(x[:, [3, 1, 0, 2, 6, 5, 4]])[:, :2])
    torch.nn.init.constant_(layer.qkv.bias, -100)
    x = x.bfloat16().float().requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = layer(x)
    y.float().sum().backward()
    assert y.isfinite().all() and x.grad.isfinite().all()
