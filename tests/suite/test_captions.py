"""Data with captions and backbones: sizes follow from the data, and what does not fit is one mistake at its place."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.suite.test_plan import plan_of, problems_of
from tread_bench.core.config.routed import setting_of
from tread_bench.core.describe.metrics import Needs, find_metric
from tread_bench.data.digits.family import DigitsData

SIZES = {"depth": 4, "hidden": 16, "patch": 2}
TAKE_TEXT = {
    "DiT": {"heads": 2},
    "SiT": {"heads": 2},
    "LightningDiT": {"heads": 2},
    "U-ViT": {"heads": 2},
    "MMDiT": {"heads": 2},
    "ZigMa": {},
}


@pytest.fixture(autouse=True)
def digits_with_captions(monkeypatch):
    monkeypatch.setattr(DigitsData, "text_shape", property(lambda options: (7, 12)))
    monkeypatch.setattr(DigitsData, "num_classes", property(lambda options: 0))


@pytest.mark.parametrize("name", TAKE_TEXT)
def test_sizes_of_the_text_follow_from_the_data(name):
    (planned,) = plan_of(base={"backbone": {"name": name, **SIZES, **TAKE_TEXT[name]}}).cells
    assert setting_of(planned.cell).spec.context_shape == (7, 12)
    assert "context_tokens" not in planned.cell.backbone.sizes  # so that ids do not depend on what follows


@pytest.mark.parametrize("name", ["DiS", "DRWKV-S/2"])
def test_a_family_without_text_is_refused_with_those_that_take_it(name):
    ((loc, message),) = problems_of(base={"backbone": name})
    assert loc == ("base", "backbone", "name")
    assert message == (
        f"backbone {name} takes no text, and data digits has captions: choose DiT, LightningDiT, MMDiT, SiT, "
        "U-ViT, ZigMa, or data without captions"
    )


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"context_tokens": 5}, "backbone.context_tokens 5: the data has 7; leave the key out"),
        ({"context_dim": 768}, "backbone.context_dim 768: the data has 12; leave the key out"),
        ({"num_classes": 10}, "backbone.num_classes 10: the data has 0; leave the key out"),
    ],
)
def test_sizes_that_contradict_the_data_are_one_mistake_each(sizes, message):
    found = problems_of(base={"backbone": {"name": "DiT", **SIZES, "heads": 2, **sizes}})
    assert found == [(("base", "backbone", *sizes), message)]


def test_sizes_that_agree_with_the_data_are_accepted():
    plan_of(base={"backbone": {"name": "ZigMa", **SIZES, "context_tokens": 7, "context_dim": 12}})
    (planned,) = plan_of(base={"backbone": "U-ViT-S/2-T2I"}).cells
    assert setting_of(planned.cell).spec.context_shape == (7, 12)


def test_guidance_may_leave_out_a_caption_where_training_did():
    guided = {"backbone": {"name": "DiT", **SIZES, "heads": 2}, "sampling": {"guidance": "cfg", "guidance_scale": 2}}
    plan_of(base=guided)
    ((_, message),) = problems_of(base={**guided, "training.label_dropout": 0})
    assert "the network was never trained without one" in message


def test_what_needs_classes_is_refused(monkeypatch):
    kid = find_metric("kid")
    monkeypatch.setattr(kid.options, "family", replace(kid, needs=kid.needs | {Needs.LABELS}))
    found = problems_of(base={"backbone": {"name": "DiT", **SIZES, "heads": 2}})
    assert any("data digits has no labels, which it needs" in message for _, message in found)
