from __future__ import annotations

import csv
from pathlib import Path

import pytest
import torch

from tread_bench import Route, create_backbone
from tread_bench.core.costs import cost_figures, cost_of
from tread_bench.core.families import make_spec

PUBLISHED = [
    row
    for row in csv.DictReader((Path(__file__).parents[1] / "published_models.csv").read_text().splitlines())
    if row["family"] in ("DiT", "SiT")
]
SMALL = {"depth": 4, "hidden": 32, "heads": 2, "patch": 2, "image_size": 8, "channels": 1, "num_classes": 10}


def small(**changes):
    """A DiT whose zero-initialised layers are not zero, so that its blocks do something."""
    model = create_backbone("DiT", seed=0, **{**SMALL, **changes})
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(0.05 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    return model


def inputs(batch=3):
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(batch, 1, 8, 8, generator=generator)
    return x, torch.rand(batch, generator=generator), torch.randint(0, 11, (batch,), generator=generator)


def published_spec(row):
    sizes = {"learn_sigma": False} if "learn_sigma=False" in row["model"] else {}
    return make_spec(row["model"].split()[0], image_size=64 if "512px" in row["model"] else 32, **sizes)


@pytest.mark.parametrize("row", PUBLISHED, ids=lambda row: row["model"])
def test_parameters_and_macs_are_the_published_ones(row):
    family, spec = published_spec(row)
    cost = cost_of(family, spec)
    assert cost.params == int(row["params_total"])
    assert cost.trainable_params == int(row["params_trainable"])
    assert cost.forward.total / 1e9 == pytest.approx(float(row["gmacs_recounted"]), abs=6e-4)


def test_all_published_sizes_are_there():
    assert {row["model"].split()[0] for row in PUBLISHED} >= {f"DiT-{s}/{p}" for s in ("B", "XL") for p in (2, 4, 8)}


def test_xl_routed_forward_costs_what_the_method_says():
    family, spec = make_spec("DiT-XL/2")
    cost = cost_figures(family, spec, [Route(2, -4, 0.5)])
    assert cost.forward_macs / cost.dense_forward_macs == pytest.approx(0.583, abs=5e-4)
    assert cost.tokens_per_block == [256] * 2 + [128] * 23 + [256] * 3


def test_fresh_model_predicts_zero():
    x, t, y = inputs()
    assert torch.equal(create_backbone("DiT", **SMALL)(x, t, y), torch.zeros_like(x))


@pytest.mark.parametrize("attention", ["sdpa", "math"])
@pytest.mark.parametrize("routes", [[Route(1, 2, 0.0)], [Route(0, 3, 0.0)], [Route(0, 1, 0.0), Route(2, 3, 0.0)]])
def test_rate_zero_is_the_dense_output_bit_for_bit_through_gather_and_scatter(attention, routes):
    model = small(kernels={"attention": attention})
    x, t, y = inputs()
    seen = []
    run_block = model.run_block
    model.run_block = lambda block, state: (seen.append(state.ids is not None), run_block(block, state))[1]
    assert torch.equal(model(x, t, y, routes=routes), model(x, t, y))
    assert any(seen), "the route was never entered"


def test_order_of_kept_tokens_does_not_matter():
    model = small().double()
    x, t, y = inputs()
    ids = torch.rand(3, 16, generator=torch.Generator().manual_seed(0)).argsort(1)[:, :8]
    routes = [Route(1, 2, 0.5)]
    one, other = (model(x.double(), t, y, routes=routes, ids=[i]) for i in (ids, ids.flip(1)))
    torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


def test_every_trainable_parameter_gets_a_gradient_dense_and_routed():
    x, t, y = inputs()
    for routes in ([], [Route(1, 2, 0.5)]):
        model = small()
        model(x, t, y, routes=routes).square().mean().backward()
        without = [n for n, p in model.named_parameters() if p.requires_grad and (p.grad is None or not p.grad.any())]
        assert without == []


def test_label_dropout_row_is_what_no_label_means():
    model = small()
    x, t, _ = inputs()
    assert torch.equal(model(x, t), model(x, t, torch.full((3,), 10)))


def test_math_and_fused_attention_agree_with_an_explicit_softmax():
    x, t, y = inputs()
    fused, math = (small(kernels={"attention": name}).double() for name in ("sdpa", "math"))
    torch.testing.assert_close(fused(x.double(), t, y), math(x.double(), t, y), rtol=1e-10, atol=1e-10)
    attn, tokens = math.blocks[0].attn, torch.randn(2, 5, 32, dtype=torch.float64)
    q, k, v = attn.qkv(tokens).reshape(2, 5, 3, 2, 16).permute(2, 0, 3, 1, 4)
    weights = ((q @ k.transpose(-1, -2)) / 16**0.5).softmax(-1)
    expected = attn.proj((weights @ v).transpose(1, 2).reshape(2, 5, 32))
    torch.testing.assert_close(attn(tokens), expected)


def test_models_of_one_seed_share_weights_whatever_else_they_have():
    shallow, deep = create_backbone("DiT", seed=3, **SMALL), create_backbone("DiT", seed=3, **{**SMALL, "depth": 6})
    other = create_backbone("DiT", seed=4, **SMALL)
    assert torch.equal(shallow.blocks[2].attn.qkv.weight, deep.blocks[2].attn.qkv.weight)
    assert not torch.equal(shallow.blocks[2].attn.qkv.weight, other.blocks[2].attn.qkv.weight)
    assert not torch.equal(shallow.blocks[1].attn.qkv.weight, shallow.blocks[2].attn.qkv.weight)


def test_unconditional_model_takes_no_labels():
    model = create_backbone("DiT", **{**SMALL, "num_classes": 0})
    x, t, _ = inputs()
    assert model(x, t).shape == x.shape


@pytest.mark.parametrize(
    ("sizes", "rule"),
    [
        ({"hidden": 30, "heads": 4}, "multiple of heads"),
        ({"patch": 3}, "must divide image_size"),
        ({"deepth": 3}, "deepth"),
    ],
)
def test_wrong_sizes_are_named(sizes, rule):
    with pytest.raises(ValueError, match=rule):
        create_backbone("DiT", **{**SMALL, **sizes})
