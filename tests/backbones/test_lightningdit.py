from __future__ import annotations

import csv
from pathlib import Path

import pytest
import torch

from tread_bench import Route, create_backbone
from tread_bench.core.costs import cost_of
from tread_bench.core.families import make_spec
from tread_bench.measure.macs import count_cost

PUBLISHED = [
    row
    for row in csv.DictReader((Path(__file__).parents[1] / "published_models.csv").read_text().splitlines())
    if row["family"] == "LightningDiT"
]
SMALL = {"depth": 4, "hidden": 32, "heads": 2, "patch": 2, "image_size": 8, "channels": 1, "num_classes": 10}
TABLE = 1e-5  # the rotary table is made in fp32
ROUTES = [[], [Route(1, 2, 0.5)], [Route(0, 1, 0.25), Route(2, 3, 0.75)]]


def small(**changes):
    """A LightningDiT whose zero-initialised layers are not zero and whose attention is no average."""
    model = create_backbone("LightningDiT", seed=0, **{**SMALL, **changes})
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(0.2 * torch.randn(parameter.shape, generator=generator))
    return model


def inputs(batch=3, dtype=torch.float32):
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(batch, 1, 8, 8, generator=generator, dtype=dtype)
    return x, torch.rand(batch, generator=generator), torch.randint(0, 11, (batch,), generator=generator)


@pytest.mark.parametrize("row", PUBLISHED, ids=lambda row: row["model"])
def test_parameters_are_the_published_ones(row):
    family, spec = make_spec(row["model"])
    channels, size, _ = map(int, row["input"].split()[1].split("x"))
    assert (spec.channels, spec.image_size, spec.num_classes) == (channels, size, int(row["num_classes"]))
    assert (spec.patch, spec.depth, spec.hidden, spec.heads) == tuple(
        int(row[k]) for k in ("patch", "blocks", "hidden", "heads")
    )
    cost = cost_of(family, spec)
    assert (cost.params, cost.trainable_params) == (int(row["params_total"]), int(row["params_trainable"]))
    if row["gmacs_recounted"]:
        assert cost.forward.total / 1e9 == pytest.approx(float(row["gmacs_recounted"]), abs=6e-4)


@pytest.mark.parametrize(
    "sizes", [{}, {"num_classes": 0, "mlp_ratio": 2.5}, {"learn_sigma": True, "channels": 3}], ids=str
)
@pytest.mark.parametrize("routes", ROUTES, ids=str)
def test_closed_form_equals_the_count_on_the_meta_device(sizes, routes):
    family, spec = make_spec("LightningDiT", **{**SMALL, **sizes})
    resolved = family.resolve(spec, routes, "random")
    assert cost_of(family, spec, resolved) == count_cost(family, spec, resolved)


def test_closed_form_equals_the_count_of_the_largest():
    family, spec = make_spec("LightningDiT-1p6B/1")
    resolved = family.resolve(spec, [Route(2, -4, 0.5)], "random")
    assert cost_of(family, spec, resolved) == count_cost(family, spec, resolved)


def test_fresh_model_predicts_zero():
    x, t, y = inputs()
    assert torch.equal(create_backbone("LightningDiT", **SMALL)(x, t, y), torch.zeros_like(x))


@pytest.mark.parametrize("attention", ["sdpa", "math"])
@pytest.mark.parametrize(
    "routes", [[Route(1, 2, 0.0)], [Route(0, 3, 0.0)], [Route(0, 1, 0.0), Route(2, 3, 0.0)]], ids=str
)
def test_rate_zero_is_the_dense_output_bit_for_bit_through_gather_and_scatter(attention, routes):
    model = small(kernels={"attention": attention})
    seen = []
    run_block = model.run_block
    model.run_block = lambda block, state: (seen.append(state.ids is not None), run_block(block, state))[1]
    assert torch.equal(model(*inputs(), routes=routes), model(*inputs()))
    assert any(seen), "the route was never entered"


def turned(x_BHKE, places_BK, columns):
    """RoPE on the grid, written out: channel pairs as complex numbers, the first half by row, the second by column."""
    quarter = x_BHKE.shape[-1] // 4
    frequencies = 10000 ** (-torch.arange(quarter, dtype=torch.float64) / quarter)
    rows, cols = places_BK // columns, places_BK % columns
    angle = torch.cat([rows[..., None] * frequencies, cols[..., None] * frequencies], dim=-1)[:, None]
    pairs = torch.view_as_complex(x_BHKE.unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angle), angle)).flatten(-2)


def attention_by_hand(attn, x_BKD, places_BK):
    """Softmax attention over the tokens at those places of the 4 x 4 grid."""
    batch, kept, width = x_BKD.shape
    q, k, v = (x_BKD @ attn.qkv.weight.T + attn.qkv.bias).reshape(batch, kept, 3, 2, 16).permute(2, 0, 3, 1, 4)
    q, k = turned(q, places_BK, 4), turned(k, places_BK, 4)
    weights = (q @ k.transpose(-1, -2) / 4).softmax(-1)
    return (weights @ v).transpose(1, 2).reshape(batch, kept, width) @ attn.proj.weight.T + attn.proj.bias


@pytest.mark.parametrize("attention", ["sdpa", "math"])
def test_kept_tokens_attend_from_their_places_on_the_full_grid(attention):
    model = small(kernels={"attention": attention}).double()
    x, t, y = inputs(dtype=torch.float64)
    ids = torch.rand(3, 16, generator=torch.Generator().manual_seed(0)).argsort(1)[:, :8].sort(1).values
    calls = []
    for block in model.blocks:
        block.attn.register_forward_hook(lambda attn, args, output: calls.append((attn, args[0], output)))
    model(x, t, y, routes=[Route(1, 2, 0.5)], ids=[ids])
    everywhere, first = torch.arange(16).expand(3, 16), torch.arange(8).expand(3, 8)
    for (attn, tokens, output), places in zip(calls, [everywhere, ids, ids, everywhere], strict=True):
        torch.testing.assert_close(output, attention_by_hand(attn, tokens, places), rtol=TABLE, atol=TABLE)
    attn, tokens, output = calls[1]
    assert (output - attention_by_hand(attn, tokens, first)).abs().max() > 1e-2, "the test cannot see the places"


def test_rows_of_the_table_are_gathered_once_per_route():
    model = small()
    ids = [torch.tensor([[0, 3, 5, 15]]), torch.tensor([[1, 2, 8, 9]])]
    x, t, y = inputs(batch=1)
    state = model.start(x, t, y)
    rows = []
    run_block = model.run_block
    model.run_block = lambda block, state: (run_block(block, state), rows.append(model._rope_rows(state)))[0]
    model(x, t, y, routes=[Route(0, 1, 0.75), Route(2, 3, 0.75)], ids=ids)
    assert model._rope_rows(state) is model.rope and model.rope.shape == (16, 32)
    assert rows[0] is rows[1] and rows[2] is rows[3]
    assert torch.equal(rows[0][:, 0], model.rope[ids[0]]) and torch.equal(rows[2][:, 0], model.rope[ids[1]])


def test_order_of_kept_tokens_does_not_matter():
    model = small().double()
    x, t, y = inputs(dtype=torch.float64)
    ids = torch.rand(3, 16, generator=torch.Generator().manual_seed(0)).argsort(1)[:, :8]
    one, other = (model(x, t, y, routes=[Route(1, 2, 0.5)], ids=[i]) for i in (ids, ids.flip(1)))
    torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("routes", ROUTES, ids=str)
def test_every_trainable_parameter_gets_a_gradient_dense_and_routed(routes):
    model = small()
    model(*inputs(), routes=routes).square().mean().backward()
    without = [n for n, p in model.named_parameters() if p.requires_grad and (p.grad is None or not p.grad.any())]
    assert without == []


@pytest.mark.parametrize("attention", ["sdpa", "math"])
def test_block_equals_its_written_out_formula(attention):
    model = small(kernels={"attention": attention}).double()
    block = model.blocks[0]
    generator = torch.Generator().manual_seed(4)
    x = torch.randn(3, 16, 32, dtype=torch.float64, generator=generator)
    c = torch.randn(3, 32, dtype=torch.float64, generator=generator)

    def norm(x, layer):
        return x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * layer.weight

    def linear(x, layer):
        return x @ layer.weight.T + layer.bias

    places = torch.arange(16).expand(3, 16)
    modulation = linear(c * c.sigmoid(), block.adaLN_modulation[1])[:, None]
    shift1, scale1, gate1, shift2, scale2, gate2 = modulation.chunk(6, dim=-1)
    stream = x + gate1 * attention_by_hand(block.attn, norm(x, block.norm1) * (1 + scale1) + shift1, places)
    a, b = linear(norm(stream, block.norm2) * (1 + scale2) + shift2, block.mlp.w12).chunk(2, dim=-1)
    stream = stream + gate2 * linear(a * a.sigmoid() * b, block.mlp.w3)
    torch.testing.assert_close(block(x, c, model.rope), stream, rtol=TABLE, atol=TABLE)


def test_parameter_names_are_those_of_the_release():
    linears = [
        "x_embedder.proj",
        "t_embedder.mlp.0",
        "t_embedder.mlp.2",
        "final_layer.linear",
        "final_layer.adaLN_modulation.1",
    ]
    linears += [f"blocks.0.{m}" for m in ("attn.qkv", "attn.proj", "mlp.w12", "mlp.w3", "adaLN_modulation.1")]
    gains = ["blocks.0.norm1.weight", "blocks.0.norm2.weight", "final_layer.norm_final.weight"]
    names = [f"{m}.{p}" for m in linears for p in ("weight", "bias")] + gains
    assert set(small(depth=1).state_dict()) == {"pos_embed", "y_embedder.embedding_table.weight", *names}


def test_bf16_autocast_is_finite():
    model = small()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(*inputs(), routes=ROUTES[1]).float().square().mean()
    loss.backward()
    assert loss.isfinite() and all(p.grad.isfinite().all() for p in model.parameters() if p.requires_grad)


@pytest.mark.parametrize(
    ("sizes", "rule"),
    [({"hidden": 24, "heads": 4}, "over heads 4 must be a multiple of 4"), ({"heads": 5}, "multiple of heads")],
)
def test_wrong_sizes_are_named(sizes, rule):
    with pytest.raises(ValueError, match=rule):
        create_backbone("LightningDiT", **{**SMALL, **sizes})
