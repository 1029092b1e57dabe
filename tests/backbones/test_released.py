"""Weights of releases whose time runs the other way, or counts DDPM's steps, against the formulas of both."""

from __future__ import annotations

import pytest
import torch

from tests.backbones.networks import inputs, small
from tread_bench.backbones.released import DDPM_STEPS, VelocityOfDDPM, reversed_time


@pytest.mark.parametrize("family", ["DiT", "LightningDiT"])  # SiT is DiT
def test_turned_weights_give_the_velocity_from_data_to_noise(family):
    """Released: x_s = s x + (1 - s) noise and x - noise. With s = 1 - t that is x_t, and the other sign."""
    released, model, (x, t, y) = small(family), small(family), inputs()
    model.load_state_dict(reversed_time(released.state_dict()))
    with torch.no_grad():
        expected = -released(x, 1 - t, y)
        torch.testing.assert_close(model(x, t, y), expected, rtol=1e-4, atol=1e-4)
        assert not torch.allclose(released(x, t, y), expected, atol=1e-2), "as they are, they would sample wrongly"


def test_turned_weights_of_jit_give_the_data():
    released, model, (x, t, y) = small("JiT"), small("JiT"), inputs()
    model.load_state_dict(reversed_time(released.state_dict(), predicts_velocity=False))
    with torch.no_grad():
        torch.testing.assert_close(model(x, t, y), released(x, 1 - t, y), rtol=1e-4, atol=1e-4)
        assert (released(x, t, y) - released(x, 1 - t, y)).abs().max() > 1e-2, "as they are, they would not"


SPREAD = 0.6  # standard deviation of data whose best predictions are known in closed form


class BestNoise(torch.nn.Module):
    """E[noise | z_k] for data N(0, SPREAD^2) and DDPM's linear schedule, between steps as the wrapper counts them."""

    def __init__(self, ratios):
        super().__init__()
        self.ratios, self.asked = ratios, []

    def forward(self, z, k, y):
        self.asked += k.tolist()
        low = k.double().floor().clamp(max=DDPM_STEPS - 2).long()
        share, logs = k.double() - low, self.ratios.log()
        variance = (logs[low] + share * (logs[low + 1] - logs[low])).exp().square()  # over the data's scale
        kept = (1 / (1 + variance)).view(-1, 1, 1, 1)
        return ((1 - kept).sqrt() * z / (kept * SPREAD**2 + 1 - kept)).to(z.dtype)


def test_a_perfect_prediction_of_the_noise_becomes_the_perfect_velocity():
    """E[noise - x | x_t] = (t - (1 - t) s^2) x_t / ((1 - t)^2 s^2 + t^2)."""
    betas = torch.linspace(1e-4, 0.02, 1000, dtype=torch.float64)
    kept = torch.cumprod(1 - betas, dim=0)
    best = BestNoise(((1 - kept) / kept).sqrt())
    t = torch.linspace(0.01, 0.993, 200, dtype=torch.float64)
    x = torch.randn(200, 2, 4, 4, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    velocity, at = VelocityOfDDPM(best)(x, t), t.view(-1, 1, 1, 1)
    expected = (at - (1 - at) * SPREAD**2) * x / ((1 - at) ** 2 * SPREAD**2 + at**2)
    torch.testing.assert_close(velocity, expected, rtol=1e-9, atol=1e-9)
    ends = VelocityOfDDPM(best)(x[:2], torch.tensor([0.0, 1.0], dtype=torch.float64))
    torch.testing.assert_close(ends, torch.stack([-x[0], x[1]]), rtol=0.05, atol=0.05)  # the nearest step's
    assert (min(best.asked), max(best.asked)) == pytest.approx((0, 999)), "the steps that DDPM has"
