from __future__ import annotations

import math
from functools import partial

import pytest
import torch

from tests.backbones import networks
from tests.backbones.networks import assert_is_by_hand, drawn, inputs, present
from tests.model.ops.wkv_reference import bi_wkv_reference
from tread_bench import Route, create_backbone
from tread_bench.core.describe.families import make_spec
from tread_bench.model.ops.qshift import q_shift

FAMILY = "DRWKV"
SMALL, ROUTES = networks.SMALL[FAMILY], networks.ROUTES[FAMILY]
small = partial(networks.small, FAMILY)


CHOICES = ("neighbours", "self", "grid")


def by_hand(model, x, t, y, routes, ids):
    """Stream and skips at full length, sample by sample; kept tokens are laid on a grid of zeros to be shifted."""
    outputs = []
    for sample in range(len(x)):
        state = model.start(x[sample : sample + 1], t[sample : sample + 1], y[sample : sample + 1])
        stream, skips = state.streams["x"], []
        for number, block in enumerate([*model.in_blocks, model.mid_block, *model.out_blocks]):
            seen = present(routes, ids, number, sample)

            def shift(tokens, seen=seen):
                grid = torch.zeros(1, 16, 32, dtype=x.dtype)
                grid[:, seen] = tokens
                return q_shift(grid, (4, 4))[:, seen]

            skip = (skips.pop()[:, seen],) if number > len(model.in_blocks) else ()
            stream = stream.clone()
            stream[:, seen] = block(stream[:, seen], state.c, shift, (None, None), *skip)
            if number < len(model.in_blocks):
                skips.append(stream)
        outputs.append(model.finish(state.with_streams(x=stream)))
    return torch.cat(outputs)


@pytest.mark.parametrize("routes", [[], *ROUTES], ids=str)
def test_shift_and_skips_under_a_route_equal_a_hand_written_walk(routes):
    assert_is_by_hand(by_hand, small(), inputs, routes)


def test_choices_differ_where_neighbours_are_missing():
    x, t, y = inputs()
    routed = {
        c: small(q_shift=c)(x, t, y, routes=[Route(1, 2, 0.5)], selector="rows", ids=drawn([Route(1, 2, 0.5)]))
        for c in CHOICES
    }
    assert all(
        (routed[a] != routed[b]).any() for a, b in (("neighbours", "self"), ("self", "grid"), ("grid", "neighbours"))
    )


@pytest.mark.parametrize(
    ("rate", "selector", "way_out"),
    [
        (0.5, "random", "selector columns, rows, strided or q_shift='neighbours'"),
        (0.75, "blocks", "selector columns, rows, strided or q_shift='neighbours'"),
        (0.6, "strided", "choose q_shift='neighbours'"),
    ],
)
def test_shifting_on_a_kept_grid_is_refused_where_there_is_none(rate, selector, way_out):
    family, spec = make_spec("DRWKV", **SMALL, q_shift="grid")
    with pytest.raises(ValueError, match="do not form a grid") as refused:
        family.resolve(spec, [Route(1, 2, rate)], selector)
    assert way_out in str(refused.value) and f"1:2@{rate}" in str(refused.value)
    for choice in ("neighbours", "self"):
        assert family.resolve(spec.model_copy(update={"q_shift": choice}), [Route(1, 2, rate)], selector)


@pytest.mark.parametrize("selector", ["strided", "rows", "columns"])
@pytest.mark.parametrize("rate", [0.5, 0.75])
def test_shifting_on_a_kept_grid_is_accepted_where_there_is_one(selector, rate):
    assert small(q_shift="grid")(*inputs(), routes=[Route(1, 3, rate)], selector=selector).isfinite().all()


def test_spatial_mix_equals_its_written_out_formula():
    mix = small().double().in_blocks[1].att
    x, shifted = torch.randn(2, 2, 7, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    k, v, r = (
        (share * x + (1 - share) * shifted) @ layer.weight.T
        for share, layer in (
            (mix.spatial_mix_k, mix.key),
            (mix.spatial_mix_v, mix.value),
            (mix.spatial_mix_r, mix.receptance),
        )
    )
    y = bi_wkv_reference(mix.spatial_decay / 7, mix.spatial_first / 7, k, v) / (1 + torch.exp(-r))
    torch.testing.assert_close(mix(x, shifted), y @ mix.output.weight.T, rtol=1e-12, atol=1e-12)


def test_channel_mix_equals_its_written_out_formula():
    mix = small().double().in_blocks[1].ffn
    x, shifted = torch.randn(2, 2, 7, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    k, r = (
        (share * x + (1 - share) * shifted) @ layer.weight.T
        for share, layer in ((mix.spatial_mix_k, mix.key), (mix.spatial_mix_r, mix.receptance))
    )
    expected = k.clamp(min=0) ** 2 @ mix.value.weight.T / (1 + torch.exp(-r))
    torch.testing.assert_close(mix(x, shifted), expected, rtol=1e-12, atol=1e-12)


def test_the_first_block_normalises_the_stream_itself():
    model = create_backbone("DRWKV", seed=0, **SMALL)
    x, t, y = inputs()
    before, after = model.start(x, t, y), {}
    model(x, t, y, on_block=lambda block, state: after.update({block: state.streams["x"]}))
    torch.testing.assert_close(after[0], torch.nn.functional.layer_norm(before.streams["x"], (32,)))
    assert torch.equal(after[0], after[1])  # fresh gates are closed


def test_initial_decays_and_mixes_are_the_released_ones():
    model = create_backbone("DRWKV", seed=0, **SMALL)
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
