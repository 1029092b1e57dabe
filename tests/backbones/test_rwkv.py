from __future__ import annotations

import math
from functools import partial

import pytest
import torch

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


def test_rwkv7_starts_at_its_biases_with_orthogonal_ranks_of_a_tenth():
    """As `RWKV7Attention` of flash-linear-attention, but for its projections and norm; block 2 of 5, heads of 16."""
    mixer = create_backbone("DiG", seed=0, **{**networks.SMALL["DiG"], "mixer": "rwkv7"}).blocks[2].attn
    for name in "wavg":
        down, _, up = getattr(mixer, f"{name}_lora").lora
        assert not down.weight.any(), name
        torch.testing.assert_close(up.weight @ up.weight.T, torch.eye(32) / 100, rtol=0, atol=1e-7)
    assert set(mixer.k_a.tolist()) == {mixer.k_a.new_tensor(1.02).item()}
    assert set(mixer.r_k.flatten().tolist()) == {mixer.r_k.new_tensor(-0.04).item()}
    for channel in (0, 7, 31):
        ramp, place = channel / 31, 2 * (channel % 16) / 15 - 1
        zigzag = math.copysign(place**2, place)
        starts = {
            "w": -5.5 + 6 * ramp ** (1 + 0.5**0.3) + 2.5 * zigzag,
            "a": -0.19 + 0.3 * zigzag + 0.4 * (ramp - 0.5),
            "v": 0.73 - 0.4 * (ramp - 0.5),
        }
        for name, bias in starts.items():
            assert getattr(mixer, f"{name}_lora").lora[2].bias[channel].item() == pytest.approx(bias, abs=1e-5), name
        for name, power in {"r": 0.2, "w": 0.9, "k": 0.7, "v": 0.7, "a": 0.9, "g": 0.2}.items():
            mixed = 1 - (channel / 32) ** (power * 0.6)
            assert getattr(mixer, f"x_{name}")[0, 0, channel].item() == pytest.approx(mixed, abs=1e-6), name
        assert mixer.k_k[channel].item() == pytest.approx(0.71 - 0.1 * (ramp - 0.5), abs=1e-6)
