from __future__ import annotations

import math
from functools import partial

import pytest

from tests.backbones import networks
from tread_bench import Route, create_backbone

FAMILY = "DRWKV"
SMALL = networks.SMALL[FAMILY]
ROUTE = Route(1, 2, 0.5)
small = partial(networks.small, FAMILY)


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
