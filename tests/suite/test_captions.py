"""Data with captions and backbones: sizes follow from the data, and what does not fit is one mistake at its place."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.suite.test_plan import plan_of, problems_of
from tread_bench.core.config.routed import setting_of
from tread_bench.core.describe.metrics import Needs, metrics
from tread_bench.data.digits.family import DigitsData

SIZES = {"name": "DiT", "depth": 4, "hidden": 16, "heads": 2, "patch": 2}
ZIGMA = {"name": "ZigMa", "depth": 4, "hidden": 16, "patch": 2}


@pytest.fixture(autouse=True)
def digits_with_captions(monkeypatch):
    monkeypatch.setattr(DigitsData, "text_shape", property(lambda options: (7, 12)))
    monkeypatch.setattr(DigitsData, "num_classes", property(lambda options: 0))


@pytest.mark.parametrize(
    "backbone", [SIZES, ZIGMA, {**ZIGMA, "context_tokens": 7, "context_dim": 12}, {"name": "U-ViT-S/2-T2I"}], ids=str
)
def test_sizes_of_the_text_follow_from_the_data(backbone):
    (planned,) = plan_of(base={"backbone": backbone}).cells
    assert setting_of(planned.cell).spec.context_shape == (7, 12)
    assert planned.cell.backbone.sizes.get("context_dim") == backbone.get("context_dim")  # so that ids do not follow it


def test_a_family_without_text_is_refused_with_those_that_take_it():
    ((loc, message),) = problems_of(base={"backbone": "DiS"})
    assert loc == ("base", "backbone", "name")
    assert "takes no text, and data digits has captions: choose DiT, LightningDiT, MMDiT, SiT, U-ViT, ZigMa," in message


def test_sizes_that_contradict_the_data_are_one_mistake_each():
    for key, of_data in (("context_tokens", 7), ("context_dim", 12), ("num_classes", 0)):
        found = problems_of(base={"backbone": {**SIZES, key: 5}})
        message = f"backbone.{key} 5: the data has {of_data}; leave the key out"
        assert found == [(("base", "backbone", key), message)]


def test_guidance_may_leave_out_a_caption_where_training_did():
    guided = {"backbone": SIZES, "sampling": {"guidance": "cfg", "guidance_scale": 2}}
    plan_of(base=guided)
    ((_, message),) = problems_of(base={**guided, "training.label_dropout": 0})
    assert "the network was never trained without one" in message


def test_what_needs_classes_is_refused(monkeypatch):
    kid = metrics.find("kid")
    monkeypatch.setattr(kid.options, "family", replace(kid, needs=kid.needs | {Needs.LABELS}))
    found = problems_of(base={"backbone": SIZES})
    assert any("data digits has no labels, which it needs" in message for _, message in found)
