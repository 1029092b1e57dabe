"""Training on captions: which text a sample has, and whose text is left out."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.captioned_digits import captioned_cell, features
from tests.cell.test_step import make_trainer
from tests.model.methods.subjects import BACKBONES, OPTIONS, ROUTES
from tests.pairs import in_turn
from tests.shown_checks import failing
from tread_bench.contract import check_method
from tread_bench.core.describe.families import families
from tread_bench.core.describe.guidance import guidance_rules
from tread_bench.core.describe.methods import methods
from tread_bench.core.numbers import draws
from tread_bench.data.ranks import Ranks

ROUTED = {"method": "tread", "routes": "1:2@0.5"}


def test_dropped_samples_have_the_empty_text_bit_for_bit_and_the_others_their_caption():
    cell = captioned_cell(training={"iterations": 12, "batch": 1000, "label_dropout": 0.25})
    trainer = make_trainer(cell)
    train, batch = trainer.data.train, trainer.batch(1)
    items = draws.permuted(0, "order", 1000, 1000, len(train))
    dropped = torch.from_numpy(draws.uniform(0, "label dropout", 1000, 1000) < 0.25)
    is_empty = (batch.y == train.empty_text).flatten(1).all(1)
    assert torch.equal(is_empty, dropped) and 200 < dropped.sum() < 300
    assert torch.equal(batch.y[~dropped], train.text(items, 0, 1000)[~dropped])
    assert torch.equal(batch.y[dropped], features("").expand(int(dropped.sum()), -1, -1))


def test_a_sample_has_the_same_text_in_every_cell_and_whatever_the_batch():
    small, large, routed = (
        make_trainer(captioned_cell(training={"iterations": 12, "batch": size}, **extra))
        for size, extra in ((4, {}), (8, {}), (8, ROUTED))
    )
    expected = large.batch(1).y
    assert torch.equal(torch.cat([small.batch(2).y, small.batch(3).y]), expected)
    assert torch.equal(routed.batch(1).y, expected)
    assert torch.equal(torch.cat([part.y for part in large.batch(1).split(3)]), expected)
    large.ranks = Ranks(1, 2)
    assert torch.equal(large.prepared(1).y, expected[4:])


def test_captions_of_an_image_vary_over_epochs():
    trainer = make_trainer(captioned_cell())
    train, index = trainer.data.train, np.zeros(50, dtype=np.int64)
    assert set(train.captions(index, 0, 0)) == {"a zero", "the digit zero"}


# The contracts of everything else hold with text too

TEXT = {"num_classes": 0, "context_tokens": 3, "context_dim": 5}
SIZES = {**BACKBONES, "MMDiT": {**BACKBONES["DiT"], "name": "MMDiT"}}
WITH_TEXT = {name: {**SIZES[name], **TEXT} for name in ("MMDiT", "DiT", "LightningDiT", "U-ViT", "ZigMa")}


def test_every_family_that_takes_text_is_tried():
    takes_text = {family.spec for family in families().values() if "context_tokens" in family.spec.model_fields}
    assert {families()[name].spec for name in WITH_TEXT} == takes_text


@pytest.mark.parametrize(("name", "backbone"), in_turn(methods(), WITH_TEXT))
def test_every_method_keeps_its_contract_with_text(name, backbone):
    routes = ROUTES.get(name, "1:3@0.5")
    assert check_method(name, options=OPTIONS.get(name), routes=routes, backbone=WITH_TEXT[backbone]) == []


@pytest.mark.parametrize(("name", "backbone"), in_turn(guidance_rules(), ["MMDiT", "DiT", "U-ViT"]))
def test_every_rule_of_guidance_keeps_its_contract_with_text(name, backbone):
    options = {"autoguidance": {"snapshot": 1}, "path_drop": {"blocks": "1:3"}}.get(name, {})
    assert failing("guidance", RULE=guidance_rules.find(name), OPTIONS=options, BACKBONE=WITH_TEXT[backbone]) == set()
