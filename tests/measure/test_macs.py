from __future__ import annotations

from dataclasses import replace

import pytest

from tests.backbones.networks import SIZES, TEXT
from tread_bench.core.config.training import Lora
from tread_bench.core.describe.families import Macs, make_spec
from tread_bench.core.describe.routes import Route
from tread_bench.core.numbers.costs import cost_of
from tread_bench.measure import macs
from tread_bench.measure.macs import count_cost


@pytest.mark.parametrize(
    ("name", "routes"),
    [("DiT-S/8", []), ("SiT-B/4", [Route(2, 8, 0.5)]), ("DiT-XL/2", [Route(0, 3, 0.25), Route(5, -1, 0.75)])],
    ids=str,
)
def test_closed_form_equals_the_count_on_the_meta_device(name, routes):
    family, spec = make_spec(name)
    resolved = family.resolve(spec, routes, "random")
    assert cost_of(family, spec, resolved) == count_cost(family, spec, resolved)


def test_a_linear_layer_is_counted_once_per_multiply_add():
    family, spec = make_spec("DiT", depth=1, hidden=8, heads=1, patch=1, image_size=2, channels=1, num_classes=0)
    block = cost_of(family, spec).blocks[0]
    assert block.linear == 4 * (3 * 8 * 8 + 8 * 8 + 2 * 8 * 32) + 8 * 48  # 4 tokens: qkv, projection, MLP; once: adaLN
    assert block.attention == 2 * 4 * 4 * 8


def test_cross_attention_is_counted_as_queries_keys_values_and_two_products():
    sizes = {"depth": 1, "hidden": 8, "patch": 1, "image_size": 2, "channels": 1, "num_classes": 0}
    (plain, without), (_, text) = (make_spec("ZigMa", **sizes, context_tokens=m, context_dim=6) for m in (0, 3))
    one, two = count_cost(plain, without), count_cost(plain, text)
    # 4 tokens to 8 heads of 64 and back, 3 of text to keys and values, 3 more parts of the modulation
    assert two.blocks[0].linear - one.blocks[0].linear == 512 * 8 * (2 * 4 + 2 * 3) + 3 * 8 * 8
    assert two.blocks[0].attention == 2 * 4 * 3 * 512 and two.blocks[0].scan == one.blocks[0].scan
    assert two.outside.linear - one.outside.linear == two.inputs - one.inputs == 3 * 6 * 8  # the text has no gradient


@pytest.mark.parametrize(
    ("name", "sizes", "rank"),
    [
        ("DiT", {}, 1),
        ("DiT", TEXT["DiT"], 5),
        ("JiT", {}, 2),  # tokens join within
        ("U-ViT", TEXT["U-ViT"], 2),  # a prefix and long skips
        ("MMDiT", {}, 3),  # a second stream, which no route takes
        ("DiS", {}, 2),
        ("DRWKV", {"q_shift": "grid"}, 2),
        ("ZigMa", {**TEXT["ZigMa"], "depth": 4}, 2),
        ("DiG", {"mixer": "rwkv7", "attention_every": 2}, 2),
    ],
)
def test_with_adapters_three_counts_give_what_each_routed_network_is_counted_to_cost(name, sizes, rank):
    pytest.importorskip("peft")
    family, spec = make_spec(name, **{**SIZES[name], **sizes})
    for routes in ("", "1:2@0.5", "0:1@0.25,3:3@0.75"):
        counted = count_cost(replace(family, cost=None), spec, routes, "rows", Lora(rank=rank))
        assert cost_of(family, spec, routes, "rows", Lora(rank=rank)) == counted


def test_one_network_with_adapters_is_built_for_all_rates(monkeypatch):
    pytest.importorskip("peft")
    built = []
    build = macs.build_backbone
    monkeypatch.setattr(macs, "build_backbone", lambda *given: built.append(given) or build(*given))
    family, spec = make_spec("DiT", **{**SIZES["DiT"], "depth": 3})
    costs = [cost_of(family, spec, [Route(0, 1, bypassed / 16)], lora=Lora(rank=7)) for bypassed in range(16)]
    assert len(built) == 1 and len({cost.train_step for cost in costs}) == 16


def test_where_no_quadratic_is_stated_each_network_with_adapters_is_counted(monkeypatch):
    """As of attention within windows of four tokens, or where there are too few tokens to see it."""
    pytest.importorskip("peft")
    monkeypatch.setattr(macs, "_three_counts", None)
    family, spec = make_spec("DiT", **SIZES["DiT"])

    def in_windows(spec, tokens):
        return replace(family.cost(spec, tokens), blocks=tuple(Macs(attention=4 * -(-count // 4)) for count in tokens))

    one_token = spec.model_copy(update={"patch": 8})
    for stated, of, routes in ((in_windows, spec, "1:2@0.5"), (family.cost, one_token, "")):
        cost, counted = (count_cost(replace(family, cost=one), of, routes, lora=Lora(rank=1)) for one in (stated, None))
        assert cost == counted
