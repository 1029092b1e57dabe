"""Every network's forward pass, dense and routed, against itself written out in float64, with every gradient."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from tests.backbones.mixing import MIXERS
from tests.backbones.networks import ROUTES, TEXT, drawn, in_float64, inputs, present, small, text_inputs
from tests.backbones.restated import RESTATED
from tread_bench.core.describe.mixers import mixers

CASES = [
    *TEXT.items(),
    ("DiT", {}),
    ("DiT", {"attention": "linear"}),
    ("JiT", {}),
    ("JiT", {"in_context_tokens": 0}),
    ("U-ViT", {}),
    *[(family, {"drop_path": 0.3}) for family in ("DiS", "ZigMa", "DRWKV")],
    ("DiS", {"mixer": "mamba2"}),
    ("ZigMa", {"mixer": "mamba2", "scan": "v2"}),
    *[("DiG", {"mixer": mixer}) for mixer in MIXERS],
    *[("DiG", {"mixer": mixer, "decay_skipped": True}) for mixer, one in mixers().items() if one.gates_by_token],
    ("DiG", {"mixer": "rwkv7", "depth": 9, "attention_every": 4}),
]


@pytest.mark.parametrize(("family", "sizes"), CASES, ids=str)
def test_prediction_and_every_gradient_are_those_of_the_network_written_out(family, sizes):
    every = ROUTES[family][-1:] if "mixer" in sizes else ROUTES[family]
    for number, routes in enumerate([[], *every]):
        attention = ("sdpa", "math")[number % 2]
        model = in_float64(small(family, **sizes, kernels={"attention": attention})).train()
        given = (text_inputs if model.spec.context_shape else inputs)(batch=2, dtype=torch.float64)
        weights = {name: p.detach().clone().requires_grad_(p.requires_grad) for name, p in model.named_parameters()}

        # What drop path draws, and which tokens each block sees.
        with torch.random.fork_rng():
            torch.manual_seed(number)
            draws = torch.rand(2, model.num_drops)
            torch.manual_seed(number)
            ids = drawn(routes, batch=2)
            computed = model(*given, routes=routes, ids=ids)
        prefix = model.family.num_prefix(model.spec)
        outputs = []
        for sample, one in enumerate(zip(*given, strict=True)):
            seen = partial(present, routes, ids, sample=sample, prefix=prefix)
            outputs.append(RESTATED[family](weights, model.spec, *one, seen, partial(kept, draws[sample])))
        expected = torch.stack(outputs)
        assert_close(computed, expected, routes)

        weighting = torch.linspace(-1, 1, computed.numel(), dtype=torch.float64).view_as(computed)
        for output in (expected, computed):
            (output * weighting).sum().backward()
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                assert_close(parameter.grad, weights[name].grad, (routes, name))


def kept(draws, number, rate):
    """The factor of a drop path for one sample."""
    keep = torch.tensor(1 - rate)
    return (draws[number] < keep) / keep.double()


def assert_close(computed, expected, of):
    assert (computed - expected).abs().max() <= 1e-9 * max(1, expected.abs().max()), of
