"""Training on captions: which text a sample has, whose text is left out, and that only the text can tell."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.captioned_digits import Captioned, captioned_cell, features
from tests.cell.test_step import make_trainer
from tests.model.methods.subjects import BACKBONES, OPTIONS, ROUTES
from tests.pairs import in_turn
from tests.shown_checks import failing
from tread_bench.cell.step import Trainer
from tread_bench.contract import check_method
from tread_bench.core.config.sampling import Sampling
from tread_bench.core.describe.families import families
from tread_bench.core.describe.guidance import find_guidance, guidance_rules
from tread_bench.core.describe.methods import methods
from tread_bench.core.numbers import draws
from tread_bench.data.ranks import Ranks
from tread_bench.data.source import DataSource
from tread_bench.diffusion.generate import generate
from tread_bench.diffusion.objectives.base import build_objective
from tread_bench.model.backbone import build_backbone
from tread_bench.model.methods.base import build_method
from tread_bench.model.network import Network

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


@pytest.mark.parametrize("backbone", ["DiT", "LightningDiT", "MMDiT", "U-ViT", "ZigMa"])
def test_a_step_gives_gradients_to_what_reads_the_text(backbone):
    sizes = {"name": backbone, "depth": 4, "hidden": 16, "patch": 2}
    trainer = make_trainer(captioned_cell(backbone=sizes | ({} if backbone == "ZigMa" else {"heads": 2}), **ROUTED))
    for step in range(3):  # what is zero at first lets the gradients of others through only then
        assert trainer.step(trainer.batch(step)).isfinite()
    before = {name: p.detach().clone() for name, p in trainer.network.named_parameters()}
    trainer.step(trainer.batch(3))
    reads_text = ("y_embedder", "context_embed", "context_block", "cross_attn", "msa")
    moved = {name: not torch.equal(p, before[name]) for name, p in trainer.network.named_parameters()}
    found = [is_moved for name, is_moved in moved.items() if any(part in name for part in reads_text)]
    assert found and all(found)


# Only the text tells


def black_and_white():
    """Images that are all black or all white, which their captions alone tell: under pure noise nothing else does."""
    numbers = np.arange(64) % 2
    pixels = np.broadcast_to(np.uint8(255) * numbers[:, None, None, None].astype(np.uint8), (64, 1, 8, 8))
    return Captioned(np.ascontiguousarray(pixels), np.zeros(64, dtype=np.int64), numbers)


def test_a_network_learns_what_only_the_text_tells():
    part = black_and_white()
    data = DataSource(part, part, 0)
    sizes = {"name": "DiT", "depth": 2, "hidden": 32, "heads": 2, "patch": 4}
    training = {"iterations": 250, "batch": 32, "learning_rate": 1e-3, "ema_decay": 0.9}
    cell = captioned_cell(backbone=sizes, training=training)
    model = build_backbone(cell.backbone.family(), cell.backbone.spec(cell.data), {"attention": "math"}, 0)
    objective = build_objective(cell.objective)
    trainer = Trainer(cell, 0, Network(model, build_method(cell, model)), objective, data, torch.device("cpu"))
    for step in range(250):
        trainer.step(trainer.batch(step))

    def brightness(**guidance):
        sampling = Sampling(steps=8, **guidance)
        images = generate(trainer.average, objective, sampling, 0, 40, 16, held_out=part)
        return torch.cat(list(images)).mean((1, 2, 3))

    told = torch.from_numpy(part.numbers[:40]) == 1
    for guidance in ({}, {"guidance": "cfg", "guidance_scale": 1.5}):
        found = brightness(**guidance)
        right = torch.where(told, found > 0.2, found < -0.2)
        assert right.float().mean() >= 0.9, found  # of 40; by luck one network in ten million


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
    assert failing("guidance", RULE=find_guidance(name), OPTIONS=options, BACKBONE=WITH_TEXT[backbone]) == set()
