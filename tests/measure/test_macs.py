"""Counts against closed forms, each route's own count, and torch's counter; what is kept of them on disk."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from tests.backbones.broken import SOUND, SPEC, Sound
from tests.backbones.networks import SIZES, TEXT
from tread_bench.core.config.training import Lora
from tread_bench.core.describe.families import make_spec
from tread_bench.core.describe.routes import Route
from tread_bench.core.numbers import costs
from tread_bench.core.numbers.costs import cost_of, counts_of, num_parameters
from tread_bench.measure import macs
from tread_bench.measure.counter import MacsCounter
from tread_bench.measure.macs import count_cost


@pytest.mark.parametrize(
    ("name", "routes"),
    [("DiT-S/8", []), ("SiT-B/4", [Route(2, 8, 0.5)]), ("DiT-XL/2", [Route(0, 3, 0.25), Route(5, -1, 0.75)])],
    ids=str,
)
def test_a_dit_costs_what_its_paper_says(name, routes):
    """Per block of T tokens of width D: 12 T D^2 + 6 D^2 in linear layers, 2 T^2 D in attention."""
    family, spec = make_spec(name)
    cost, width = cost_of(family, spec, routes), spec.hidden
    tokens = [spec.num_tokens] * spec.depth
    for route in family.resolve(spec, routes, "random"):
        for block in route.blocks:
            tokens[block] = route.kept(spec.num_tokens)
    assert [block.linear for block in cost.blocks] == [12 * t * width**2 + 6 * width**2 for t in tokens]
    assert [block.attention for block in cost.blocks] == [2 * t * t * width for t in tokens]
    patches, time = spec.num_tokens * width * spec.patch_values, 256 * width
    assert cost.outside.linear == time + width**2 + patches + 2 * width**2 + 2 * patches  # the last for a variance
    assert cost.train_step == 3 * cost.forward.total - patches - time  # whose inputs are data


def test_cross_attention_is_counted_as_queries_keys_values_and_two_products():
    sizes = {"depth": 1, "hidden": 8, "patch": 1, "image_size": 2, "channels": 1, "num_classes": 0}
    (plain, without), (_, text) = (make_spec("ZigMa", **sizes, context_tokens=m, context_dim=6) for m in (0, 3))
    one, two = cost_of(plain, without), cost_of(plain, text)
    # 4 tokens to 8 heads of 64 and back, 3 of text to keys and values, 3 more parts of the modulation
    assert two.blocks[0].linear - one.blocks[0].linear == 512 * 8 * (2 * 4 + 2 * 3) + 3 * 8 * 8
    assert two.blocks[0].attention == 2 * 4 * 3 * 512 and two.blocks[0].scan == one.blocks[0].scan
    assert two.outside.linear - one.outside.linear == two.inputs - one.inputs == 3 * 6 * 8  # the text has no gradient


@pytest.mark.parametrize("name", ["DiT", "U-ViT", "DRWKV"])
def test_it_counts_what_torch_counts(name):
    family, spec = make_spec(name, **SIZES[name])
    model = macs._on_meta(family, spec)
    counted = []
    for counter in (MacsCounter(), FlopCounterMode(display=False)):
        with counter:
            model(*macs._inputs(spec), routes="1:2@0.5").sum().backward()
        is_ours = isinstance(counter, MacsCounter)
        counted.append(counter.macs.total if is_ours else counter.get_total_flops() // 2)
    assert counted[0] == counted[1]


def test_a_result_is_shared_by_operations_on_the_same_shapes_and_types_alone():
    with torch.device("meta"), MacsCounter() as counter:
        number = torch.ones(2, 3, dtype=torch.long)
        assert (number * 2).dtype == torch.long and (number * 2.0).dtype == torch.float32
        one, two = (torch.ones(4, 2) @ torch.ones(2, 3) for _ in range(2))
        assert one is not two and one.shape == two.shape == (4, 3)
    assert counter.macs.linear == 2 * 4 * 2 * 3
    with MacsCounter():
        assert (torch.ones(2) + torch.ones(2)).tolist() == (torch.ones(2) + 1).tolist() == [2, 2]
        assert [torch.tensor(number).item() for number in (3, 5)] == [3, 5]  # known by values, not by shapes
        assert [torch.equal(torch.zeros(2), other) for other in (torch.zeros(2), torch.ones(2))] == [True, False]


@pytest.mark.parametrize(
    ("name", "sizes", "rank"),
    [
        ("DiT", {}, 1),
        ("DiT", TEXT["DiT"], 5),
        ("JiT", {}, 2),  # tokens join within
        ("U-ViT", TEXT["U-ViT"], 2),  # a prefix and long skips
        ("MMDiT", {}, 3),  # a second stream, which no route takes
        ("DiS", {}, 2),
        ("DRWKV", {}, 2),
        ("ZigMa", {**TEXT["ZigMa"], "depth": 4}, 2),
        ("DiG", {"mixer": "rwkv7", "attention_every": 2}, 2),
    ],
)
def test_with_adapters_three_counts_give_what_each_routed_network_is_counted_to_cost(name, sizes, rank):
    pytest.importorskip("peft")
    family, spec = make_spec(name, **{**SIZES[name], **sizes})
    assert counts_of(family, spec, Lora(rank=rank)) is not None
    for routes in ("", "1:2@0.5", "0:1@0.25,3:3@0.75"):
        counted = count_cost(family, spec, routes, "rows", Lora(rank=rank))
        assert cost_of(family, spec, routes, "rows", Lora(rank=rank)) == counted


def test_one_network_is_built_for_all_rates(monkeypatch):
    built = []
    build = macs.build_backbone
    monkeypatch.setattr(macs, "build_backbone", lambda *given: built.append(given) or build(*given))
    family = replace(SOUND, name="Another")
    found = [cost_of(family, SPEC, [Route(0, 1, bypassed / 16)]) for bypassed in range(16)]
    assert len(built) == 1 and len({cost.train_step for cost in found}) == 16


class InWindows(Sound):
    """Pads its tokens to windows of four in its first block alone, which no route over the middle reaches."""

    def scan(self, block, x):
        if block:
            return super().scan(block, x)
        padded = functional.pad(x, (0, 0, 0, -x.shape[1] % 4))
        return self.mix[block](padded)[:, : x.shape[1]]


class OnceForARoute(Sound):
    """Multiplies where tokens leave, and keeps that for the route."""

    def run_block(self, block, state):
        if "once" not in state.cache:
            state.cache["once"] = self.mix[0](state.streams["hidden"])
        return super().run_block(block, state)


class RefusesOddNumbers(Sound):
    def scan(self, block, x):
        if x.shape[1] % 2 == 0:
            raise ValueError("an even number of image tokens, and the prefix")
        return super().scan(block, x)


@pytest.mark.parametrize("network", [InWindows, OnceForARoute, RefusesOddNumbers])
def test_where_macs_are_not_quadratic_in_tokens_each_route_is_counted(network):
    family = replace(SOUND, name=network.__name__, builder=f"{__name__}:{network.__name__}")
    assert counts_of(SOUND, SPEC) is not None and counts_of(family, SPEC) is None
    routed = cost_of(family, SPEC, "1:2@0.5")
    assert routed == count_cost(family, SPEC, "1:2@0.5") != cost_of(family, SPEC)
    if network is InWindows:  # 17 tokens, padded to 20, and 9
        assert [block.linear for block in routed.blocks[:3]] == [20 * 64, 9 * 64, 9 * 64]


def test_of_three_tokens_each_route_is_counted():
    family, spec = make_spec("DiT", **{**SIZES["DiT"], "patch": 8})
    assert counts_of(family, spec) is None and cost_of(family, spec) == count_cost(family, spec)


# On disk


@pytest.fixture
def fresh(monkeypatch, tmp_path):
    """A cache of its own, and a way to forget what this process knows."""

    def forget():
        costs._known.clear()
        for cached in (costs.counts_of, costs._code):
            cached.cache_clear()

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    forget()
    yield forget
    forget()


def test_what_was_counted_is_read_until_the_code_changes(fresh, monkeypatch, tmp_path):
    family, spec = make_spec("DiT", **SIZES["DiT"])
    cost, params = cost_of(family, spec, "1:2@0.5"), num_parameters(family, spec)
    assert len(list(tmp_path.rglob("costs/*.json"))) == 2

    # Read, without torch.
    counting = []
    monkeypatch.setattr(costs, "named", counting.append)
    fresh()
    assert (cost_of(family, spec, "1:2@0.5"), num_parameters(family, spec)) == (cost, params)
    assert counting == []

    # Counted again.
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(costs, "_COUNTING", ("tread_bench.measure",))
    fresh()
    assert cost_of(family, spec, "1:2@0.5") == cost
    assert len(list(tmp_path.rglob("costs/*.json"))) == 3


def test_a_damaged_file_is_counted_again(fresh, tmp_path):
    family, spec = make_spec("DiT", **SIZES["DiT"])
    cost = cost_of(family, spec)
    (path,) = tmp_path.rglob("costs/*.json")
    written = path.read_bytes()
    for damaged in (written[:-9], b"[" + written + b"]"):
        path.write_bytes(damaged)
        fresh()
        assert cost_of(family, spec) == cost and path.read_bytes() == written


def test_of_a_family_that_nobody_announced_nothing_is_kept(fresh, tmp_path):
    assert cost_of(SOUND, SPEC) == count_cost(SOUND, SPEC)
    assert not list(tmp_path.rglob("costs/*.json"))
