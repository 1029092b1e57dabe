from __future__ import annotations

from functools import partial

import pytest
import torch

from tests.backbones import networks
from tests.backbones.networks import inputs
from tread_bench import Route

FAMILY = "U-ViT"
ROUTES, TEXT = networks.ROUTES[FAMILY], networks.TEXT[FAMILY]
small = partial(networks.small, FAMILY)


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
