"""EDM's stochastic sampler on data whose every pixel is N(MEAN, STD^2), so that the flow of their levels is known."""

from __future__ import annotations

import math

import pytest
import torch

from tread_bench.core.config.sampling import Churn
from tread_bench.diffusion.objectives.edm.family import EdmOptions
from tread_bench.diffusion.objectives.edm.objective import Edm
from tread_bench.diffusion.samplers.churn import churned, raised
from tread_bench.diffusion.samplers.heun import Heun
from tread_bench.diffusion.samplers.integrate import integrate

MEAN, STD, STEPS = 0.3, 0.4, 192


def velocity(x, sigma):
    """(x - E[data | x]) / sigma."""
    sigma = sigma.view(-1, 1, 1, 1)
    return sigma * (x - MEAN) / (STD**2 + sigma**2)


def test_samples_have_the_mean_and_the_variance_of_the_data():
    generator = torch.Generator().manual_seed(0)
    edm, noise = Edm(EdmOptions()), torch.randn(4096, 1, 4, 4, dtype=torch.float64, generator=generator)
    perturb = churned(Churn(s_churn=30), STEPS, 0, first=0)
    x = integrate(Heun(), velocity, edm.prior(noise), edm.sampling_times(STEPS), perturb)
    assert x.mean().item() == pytest.approx(MEAN, abs=0.01)
    assert x.var().item() == pytest.approx(STD**2, rel=0.02)
    correlation = torch.corrcoef(torch.stack([x.flatten(), noise.flatten()]))[0, 1]
    assert correlation < 0.2  # the noise of the start is forgotten


def test_noise_fills_the_gap_of_the_levels_times_its_scale():
    x = torch.zeros(4096, 1, 4, 4, dtype=torch.float64)
    after, level = churned(Churn(s_churn=24, s_noise=1.1), 240, 0, first=0)(x, 2.0, 0)
    assert level == pytest.approx(2.2)
    assert after.std().item() == pytest.approx(1.1 * math.sqrt(2.2**2 - 2.0**2), rel=0.01)


def test_levels_rise_inside_the_range_alone_and_by_the_root_of_two_at_most():
    churn = Churn(s_churn=24, s_min=0.05, s_max=50)
    assert raised(churn, 1.0, 240) == pytest.approx(1.1)
    assert raised(churn, 1.0, 24) == pytest.approx(math.sqrt(2))
    assert [raised(churn, sigma, 240) for sigma in (0.04, 51)] == [0.04, 51]
    assert [raised(churn, sigma, 240) for sigma in (0.05, 50)] == pytest.approx([0.055, 55])
    assert raised(Churn(s_churn=24), 1e5, 240) == pytest.approx(1.1e5)
