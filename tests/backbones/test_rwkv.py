from __future__ import annotations

import math
from functools import partial

import pytest

from tests.backbones import networks
from tests.backbones.networks import drawn, inputs
from tread_bench import Route, create_backbone
from tread_bench.core.describe.families import make_spec

FAMILY = "DRWKV"
SMALL = networks.SMALL[FAMILY]
ROUTE = Route(1, 2, 0.5)
small = partial(networks.small, FAMILY)


def test_choices_differ_where_neighbours_are_missing():
    routed = [
        small(q_shift=choice)(*inputs(), routes=[ROUTE], selector="rows", ids=drawn([ROUTE]))
        for choice in ("neighbours", "self", "grid")
    ]
    for number in range(3):
        assert (routed[number] != routed[number - 1]).any()


@pytest.mark.parametrize(
    ("rate", "selector", "way_out"),
    [
        (0.5, "random", "selector columns, rows, strided or q_shift='neighbours'"),
        (0.75, "blocks", "selector columns, rows, strided or q_shift='neighbours'"),
        (0.6, "strided", "choose q_shift='neighbours'"),
    ],
)
def test_shifting_on_a_kept_grid_is_refused_where_there_is_none(rate, selector, way_out):
    family, spec = make_spec(FAMILY, **SMALL, q_shift="grid")
    with pytest.raises(ValueError, match="do not form a grid") as refused:
        family.resolve(spec, [Route(1, 2, rate)], selector)
    assert way_out in str(refused.value) and f"1:2@{rate}" in str(refused.value)
    for choice in ("neighbours", "self"):
        assert family.resolve(spec.model_copy(update={"q_shift": choice}), [Route(1, 2, rate)], selector)


@pytest.mark.parametrize("selector", ["strided", "rows", "columns"])
@pytest.mark.parametrize("rate", [0.5, 0.75])
def test_shifting_on_a_kept_grid_is_accepted_where_there_is_one(selector, rate):
    assert small(q_shift="grid")(*inputs(), routes=[Route(1, 3, rate)], selector=selector).isfinite().all()


def test_initial_decays_and_mixes_are_the_released_ones():
    model = create_backbone(FAMILY, seed=0, **SMALL)
    att, ffn = model.out_blocks[1].att, model.out_blocks[1].ffn  # block 4 of 5: rho_0 = 1, rho_1 = 1/5
    first, last = model.in_blocks[0].att.spatial_decay, att.spatial_decay
    for channel in (0, 7, 31):
        assert first[channel].item() == pytest.approx(-5 + 8 * (channel / 31) ** 0.7, abs=1e-5)
        assert last[channel].item() == pytest.approx(-5 + 8 * (channel / 31) ** 2.0, abs=1e-5)
        assert att.spatial_first[channel].item() == pytest.approx(math.log(0.3) + ((channel + 1) % 3 - 1) / 2, abs=1e-6)
        assert att.spatial_mix_k[0, 0, channel].item() == pytest.approx((channel / 32) ** 0.2, abs=1e-6)
        assert att.spatial_mix_v[0, 0, channel].item() == pytest.approx((channel / 32) ** 0.2 + 0.3, abs=1e-6)
        assert att.spatial_mix_r[0, 0, channel].item() == pytest.approx((channel / 32) ** 0.1, abs=1e-6)
        assert ffn.spatial_mix_k[0, 0, channel].item() == pytest.approx((channel / 32) ** 0.2, abs=1e-6)
    assert model.pos_embed.requires_grad and model.pos_embed.std() > 0.1
