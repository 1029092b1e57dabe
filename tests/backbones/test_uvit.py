from __future__ import annotations

from functools import partial

import pytest
import torch

from tests.backbones import networks
from tests.backbones.networks import assert_is_by_hand, inputs, present
from tread_bench import Route
from tread_bench.model.ops.patching import unpatchify

FAMILY = "U-ViT"
ROUTES, TEXT = networks.ROUTES[FAMILY], networks.TEXT[FAMILY]
small = partial(networks.small, FAMILY)


def by_hand(model, x, t, y, routes, ids):
    """Every stream and every skip kept at full length, sample by sample; a routed block writes to its tokens only."""
    outputs = []
    prefix = model.spec.num_prefix
    for sample in range(len(x)):
        stream = model.start(x[sample : sample + 1], t[sample : sample + 1], y[sample : sample + 1]).streams["x"]
        skips = []
        for number, block in enumerate([*model.in_blocks, model.mid_block, *model.out_blocks]):
            seen = present(routes, ids, number, sample, prefix)
            skip = (skips.pop()[:, seen],) if number > len(model.in_blocks) else ()
            stream = stream.clone()
            stream[:, seen] = block(stream[:, seen], *skip)
            if number < len(model.in_blocks):
                skips.append(stream)
        patches = model.decoder_pred(model.norm(stream))[:, prefix:]
        outputs.append(model.final_layer(unpatchify(patches, (4, 4), 2)))
    return torch.cat(outputs)


@pytest.mark.parametrize("routes", [[], *ROUTES], ids=str)
def test_skips_across_a_routes_border_equal_a_hand_written_expansion(routes):
    """With labels; with text, in test_text.py."""
    assert_is_by_hand(by_hand, small(), inputs, routes)


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


def test_unconditional_model_has_the_time_alone_in_front():
    model = small(num_classes=0)
    x, t, _ = inputs()
    assert model.start(x, t, None).num_prefix == model.family.num_prefix(model.spec) == 1
    assert model(x, t, routes=[Route(1, 2, 0.5)]).shape == x.shape


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


@pytest.mark.parametrize(
    ("sizes", "y", "rule"),
    [
        (TEXT, None, r"y is missing; this model takes text: features \(B, M, E\) = \(3, 5, 6\)"),
        (TEXT, torch.zeros(3, 5, 6, dtype=torch.long), r"y is \(3, 5, 6\) int64; this model takes text"),
        (TEXT, torch.zeros(3, 4, 6), r"y is \(3, 4, 6\) float32; this model takes text"),
        ({}, torch.zeros(3, 5, 6), r"y is \(3, 5, 6\) float32; this model takes labels: \(B,\) = \(3,\) long, 0 to 10"),
        ({"num_classes": 0}, torch.zeros(3, 5, 6), "unconditional"),
    ],
)
def test_a_condition_of_another_kind_or_shape_is_refused(sizes, y, rule):
    x, t, _ = inputs()
    with pytest.raises(ValueError, match=rule):
        small(**sizes)(x, t, y)
