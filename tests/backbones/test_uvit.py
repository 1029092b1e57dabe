from __future__ import annotations

import csv
from pathlib import Path

import pytest
import torch

from tread_bench import Route, create_backbone
from tread_bench.core.costs import cost_of
from tread_bench.core.families import make_spec
from tread_bench.measure.macs import count_cost
from tread_bench.model.ops.patching import unpatchify

PUBLISHED = [
    row
    for row in csv.DictReader((Path(__file__).parents[1] / "published_models.csv").read_text().splitlines())
    if row["family"] == "U-ViT"
]
SMALL = {"depth": 4, "hidden": 32, "heads": 2, "patch": 2, "image_size": 8, "channels": 1, "num_classes": 10}
ROUTES = [
    [Route(1, 2, 0.5)],  # a skip made inside ends outside
    [Route(2, 3, 0.5)],  # a skip made outside ends inside
    [Route(1, 3, 0.75)],  # made and ended inside
    [Route(0, 1, 0.25), Route(3, 4, 0.5)],  # made inside one route, ended inside the other
]
TEXT = {"num_classes": 0, "context_tokens": 5, "context_dim": 6}


def small(**changes):
    """A U-ViT with weights large enough that its attention is no average and its skips count."""
    model = create_backbone("U-ViT", seed=0, **{**SMALL, **changes})
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=generator))
    return model


def inputs(batch=3, dtype=torch.float32):
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(batch, 1, 8, 8, generator=generator, dtype=dtype)
    return x, torch.rand(batch, generator=generator), torch.randint(0, 11, (batch,), generator=generator)


def text_inputs(batch=3, dtype=torch.float32):
    x, t, _ = inputs(batch, dtype)
    return x, t, torch.randn(batch, 5, 6, generator=torch.Generator().manual_seed(4), dtype=dtype)


def drawn(routes, batch=3, seed=3):
    """Ascending ids (B, K) of each route over the 16 patches."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.rand(batch, 16, generator=generator).argsort(1)[:, : r.kept(16)].sort(1).values for r in routes]


def published_spec(row):
    channels, size, _ = map(int, row["input"].split()[1].split("x"))
    rows = int(row["num_classes"])  # of the label table
    text = {"U-ViT-S/2 MS-COCO": "U-ViT-S/2-T2I", "U-ViT-S/2-Deep MS-COCO": "U-ViT-S-Deep/2-T2I"}
    name = text.get(row["model"], row["model"].split()[0])
    return make_spec(name, channels=channels, image_size=size, num_classes=max(rows - 1, 0))


@pytest.mark.parametrize("row", PUBLISHED, ids=lambda row: row["model"])
def test_parameters_and_macs_are_the_published_ones(row):
    family, spec = published_spec(row)
    cost = cost_of(family, spec)
    assert (spec.patch, family.num_blocks(spec), spec.hidden, spec.heads) == tuple(
        int(row[key]) for key in ("patch", "blocks", "hidden", "heads")
    )
    assert (cost.params, cost.trainable_params) == (int(row["params_total"]), int(row["params_trainable"]))
    if row["gmacs_recounted"]:
        assert cost.forward.total / 1e9 == pytest.approx(float(row["gmacs_recounted"]), abs=6e-4)


@pytest.mark.parametrize(
    "sizes", [{}, {"num_classes": 0}, TEXT, {"final_conv": False, "mlp_ratio": 2.5, "channels": 3}], ids=str
)
@pytest.mark.parametrize("routes", [[], *ROUTES], ids=str)
def test_closed_form_equals_the_count_on_the_meta_device(sizes, routes):
    family, spec = make_spec("U-ViT", **{**SMALL, **sizes})
    resolved = family.resolve(spec, routes, "random")
    assert cost_of(family, spec, resolved) == count_cost(family, spec, resolved)


def test_closed_form_equals_the_count_of_the_largest():
    family, spec = make_spec("U-ViT-H/2")
    resolved = family.resolve(spec, [Route(2, -4, 0.5)], "random")
    assert cost_of(family, spec, resolved) == count_cost(family, spec, resolved)


@pytest.mark.parametrize("attention", ["sdpa", "math"])
@pytest.mark.parametrize("routes", [[Route(r.start, r.end, 0.0) for r in routes] for routes in ROUTES], ids=str)
def test_rate_zero_is_the_dense_output_bit_for_bit_through_gather_and_scatter(attention, routes):
    model = small(kernels={"attention": attention})
    seen = []
    run_block = model.run_block
    model.run_block = lambda block, state: (seen.append(state.ids is not None), run_block(block, state))[1]
    assert torch.equal(model(*inputs(), routes=routes), model(*inputs()))
    assert any(seen), "the route was never entered"


def by_hand(model, x, t, y, routes, ids):
    """Every stream and every skip kept at full length, sample by sample; a routed block writes to its tokens only."""
    outputs = []
    prefix = model.spec.num_prefix
    for sample in range(len(x)):
        stream = model.start(x[sample : sample + 1], t[sample : sample + 1], y[sample : sample + 1]).streams["x"]
        skips = []
        for number, block in enumerate([*model.in_blocks, model.mid_block, *model.out_blocks]):
            inside = [kept for route, kept in zip(routes, ids, strict=True) if route.start <= number <= route.end]
            kept = inside[0][sample] if inside else torch.arange(16)
            present = [*range(prefix), *(prefix + kept).tolist()]
            skip = (skips.pop()[:, present],) if number > len(model.in_blocks) else ()
            stream = stream.clone()
            stream[:, present] = block(stream[:, present], *skip)
            if number < len(model.in_blocks):
                skips.append(stream)
        patches = model.decoder_pred(model.norm(stream))[:, prefix:]
        outputs.append(model.final_layer(unpatchify(patches, (4, 4), 2)))
    return torch.cat(outputs)


@pytest.mark.parametrize(("sizes", "condition"), [({}, inputs), (TEXT, text_inputs)], ids=["labels", "text"])
@pytest.mark.parametrize("routes", [[], *ROUTES], ids=str)
def test_skips_across_a_routes_border_equal_a_hand_written_expansion(routes, sizes, condition):
    model = small(**sizes).double()
    x, t, y = condition(dtype=torch.float64)
    ids = drawn(routes)
    torch.testing.assert_close(
        model(x, t, y, routes=routes, ids=ids), by_hand(model, x, t, y, routes, ids), rtol=1e-11, atol=1e-11
    )


@pytest.mark.parametrize("seed", range(3))
def test_prefix_stays_whatever_is_drawn(seed):
    model = small()
    dense, routed = {}, {}
    model(*inputs(), on_block=lambda block, state: dense.update({block: state}))
    model(
        *inputs(),
        routes=[Route(1, 3, 0.75)],
        generator=torch.Generator().manual_seed(seed),
        on_block=lambda block, state: routed.update({block: state}),
    )
    assert torch.equal(routed[0].streams["x"], dense[0].streams["x"])
    for block in (1, 2):
        assert torch.equal(routed[block].positions[:, :2], torch.tensor([[0, 1]]).expand(3, 2))
        assert (routed[block].positions[:, 2:] >= 2).all() and routed[block].ids.shape == (3, 4)
    bypassed = torch.ones(3, 18, dtype=torch.bool).scatter(1, routed[1].positions, False)
    assert bypassed.sum() == 3 * 12 and not bypassed[:, :2].any()
    assert torch.equal(routed[3].streams["x"][bypassed], routed[0].streams["x"][bypassed])
    assert (routed[3].streams["x"] != routed[0].streams["x"])[~bypassed].any(-1).all()


def test_conditioning_reaches_the_output_through_the_prefix_alone():
    model = small()
    x, t, y = inputs()
    state = model.start(x, t, y)
    tokens = state.streams["x"] - model.pos_embed
    angle = (1000 * t)[:, None] * 10000 ** (-torch.arange(16) / 16)
    torch.testing.assert_close(tokens[:, 1], torch.cat([angle.cos(), angle.sin()], dim=1), rtol=0, atol=1e-3)
    torch.testing.assert_close(tokens[:, 0], model.label_emb.weight[y])
    assert state.c is None and torch.equal(model.start(x, 1 - t, 10 - y).streams["x"][:, 2:], state.streams["x"][:, 2:])
    assert (model(x, 1 - t, y) != model(x, t, y)).any() and (model(x, t, 10 - y) != model(x, t, y)).any()


def test_text_stands_between_time_and_patches_as_projected():
    model = small(**TEXT)
    x, t, text = text_inputs()
    state = model.start(x, t, text)
    tokens = state.streams["x"] - model.pos_embed
    assert state.num_prefix == model.family.num_prefix(model.spec) == 6
    torch.testing.assert_close(
        tokens[:, 1:6], text @ model.context_embed.weight.T + model.context_embed.bias, rtol=1e-5, atol=1e-5
    )
    labelled = small(num_classes=0)
    torch.testing.assert_close(tokens[:, 0], labelled.start(x, t, None).streams["x"][:, 0] - labelled.pos_embed[:, 0])
    torch.testing.assert_close(tokens[:, 6:], model.patch_embed(x))


@pytest.mark.parametrize("token", [0, 4])
def test_every_text_token_reaches_every_patch(token):
    model, (x, t, text) = small(**TEXT), text_inputs()
    other = text.clone()
    other[:, token] += 1
    assert (model(x, t, other) != model(x, t, text)).all()


def test_text_stays_in_front_whatever_is_drawn():
    model, states, route = small(**TEXT), {}, Route(1, 3, 0.75)
    model(*text_inputs(), routes=[route], ids=drawn([route]), on_block=states.__setitem__)
    assert torch.equal(states[1].positions[:, :6], torch.arange(6).expand(3, 6))
    bypassed = torch.ones(3, 22, dtype=torch.bool).scatter(1, states[1].positions, False)
    assert bypassed.sum() == 3 * 12 and not bypassed[:, :6].any()
    assert torch.equal(states[3].streams["x"][bypassed], states[0].streams["x"][bypassed])


def test_order_of_kept_tokens_does_not_matter():
    model = small().double()
    x, t, y = inputs(dtype=torch.float64)
    routes = [Route(1, 2, 0.5)]
    one, other = (model(x, t, y, routes=routes, ids=[i]) for i in (drawn(routes)[0], drawn(routes)[0].flip(1)))
    torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("sizes", "condition"), [({}, inputs), (TEXT, text_inputs)], ids=["labels", "text"])
@pytest.mark.parametrize("routes", [[], *ROUTES], ids=str)
def test_every_parameter_gets_a_gradient_dense_and_routed(routes, sizes, condition):
    model = small(**sizes)
    model(*condition(), routes=routes).square().mean().backward()
    assert [n for n, p in model.named_parameters() if p.grad is None or not p.grad.any()] == []


@pytest.mark.parametrize("attention", ["sdpa", "math"])
def test_block_equals_its_written_out_formula(attention):
    block = small(kernels={"attention": attention}).double().out_blocks[0]
    x, skip = torch.randn(2, 2, 5, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(4))

    def norm(x, layer):
        centred = x - x.mean(-1, keepdim=True)
        return centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt() * layer.weight + layer.bias

    def linear(x, layer):
        return x @ layer.weight.T + (0 if layer.bias is None else layer.bias)

    stream = linear(torch.cat([x, skip], dim=-1), block.skip_linear)
    q, k, v = linear(norm(stream, block.norm1), block.attn.qkv).reshape(2, 5, 3, 2, 16).permute(2, 0, 3, 1, 4)
    weights = (q @ k.transpose(-1, -2) / 4).softmax(-1)
    stream = stream + linear((weights @ v).transpose(1, 2).reshape(2, 5, 32), block.attn.proj)
    hidden = linear(norm(stream, block.norm2), block.mlp.fc1)
    gelu = hidden / 2 * (1 + torch.erf(hidden / 2**0.5))
    torch.testing.assert_close(block(x, skip), stream + linear(gelu, block.mlp.fc2), rtol=1e-12, atol=1e-12)
    assert block.attn.qkv.bias is None


def test_unconditional_model_has_the_time_alone_in_front():
    model = small(num_classes=0)
    x, t, _ = inputs()
    assert model.start(x, t, None).num_prefix == model.family.num_prefix(model.spec) == 1
    assert model(x, t, routes=[Route(1, 2, 0.5)]).shape == x.shape


def test_label_dropout_row_is_what_no_label_means():
    model = small()
    x, t, _ = inputs()
    assert torch.equal(model(x, t), model(x, t, torch.full((3,), 10)))


def test_parameter_names_are_those_of_the_release():
    names = set(dict(small(depth=2).named_parameters()))
    block = {f"{m}.{p}" for m in ("norm1", "norm2", "attn.proj", "mlp.fc1", "mlp.fc2") for p in ("weight", "bias")}
    block.add("attn.qkv.weight")
    assert names == {
        *("pos_embed", "label_emb.weight", "out_blocks.0.skip_linear.weight", "out_blocks.0.skip_linear.bias"),
        *(f"{m}.{p}" for m in ("patch_embed.proj", "norm", "decoder_pred", "final_layer") for p in ("weight", "bias")),
        *(f"{b}.{name}" for b in ("in_blocks.0", "mid_block", "out_blocks.0") for name in block),
    }


def test_text_has_the_releases_parameter_names():
    names, unconditional = (set(dict(small(**s).named_parameters())) for s in (TEXT, {"num_classes": 0}))
    assert names - unconditional == {"context_embed.weight", "context_embed.bias"} and unconditional <= names


def test_text_in_half_precision_is_taken():
    model, (x, t, text) = small(**TEXT), text_inputs()
    assert torch.equal(model(x, t, text.half()), model(x, t, text.half().float()))


@pytest.mark.parametrize(
    ("sizes", "y", "rule"),
    [
        (TEXT, None, r"y is missing; this model takes text: features \(B, M, E\) = \(3, 5, 6\)"),
        (TEXT, torch.zeros(3, dtype=torch.long), r"y is \(3,\) int64; this model takes text"),
        (TEXT, torch.zeros(3, 5, 6, dtype=torch.long), r"y is \(3, 5, 6\) int64; this model takes text"),
        (TEXT, torch.zeros(3, 4, 6), r"y is \(3, 4, 6\) float32; this model takes text"),
        (TEXT, torch.zeros(1, 5, 6), r"y is \(1, 5, 6\) float32; this model takes text"),
        ({}, torch.zeros(3, 5, 6), r"y is \(3, 5, 6\) float32; this model takes labels: \(B,\) = \(3,\) long, 0 to 10"),
        ({}, torch.zeros(2, dtype=torch.long), r"y is \(2,\) int64; this model takes labels"),
        ({"num_classes": 0}, torch.zeros(3, 5, 6), "unconditional"),
    ],
)
def test_a_condition_of_another_kind_or_shape_is_refused(sizes, y, rule):
    x, t, _ = inputs()
    with pytest.raises(ValueError, match=rule):
        small(**sizes)(x, t, y)


def test_bf16_autocast_is_finite():
    model = small()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(*inputs(), routes=ROUTES[0]).float().square().mean()
    loss.backward()
    assert loss.isfinite() and all(p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize(
    ("sizes", "rule"),
    [
        ({"depth": 5}, "must be even"),
        ({"hidden": 30, "heads": 4}, "multiple of heads"),
        ({"hidden": 33, "heads": 3}, "must be even"),
        ({"context_tokens": 5}, "num_classes 10 and context_tokens 5: a model takes labels or text"),
    ],
)
def test_wrong_sizes_are_named(sizes, rule):
    with pytest.raises(ValueError, match=rule):
        create_backbone("U-ViT", **{**SMALL, **sizes})
