from __future__ import annotations

import math
from functools import partial

import pytest
import torch

from tread_bench.core.config.sampling import Churn
from tread_bench.diffusion.samplers.churn import churned, raised
from tread_bench.diffusion.samplers.heun import Heun
from tread_bench.diffusion.samplers.integrate import integrate

STEPS = 192
MANY = torch.randn(4096, 1, 4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
on_edm = pytest.mark.parametrize("gaussian", ["edm"], indirect=True)


def sampled(gaussian, churn, noise=MANY, first=0):
    edm = gaussian.objective
    perturb = churned(churn, STEPS, 0, first)
    return integrate(
        Heun(), partial(edm.velocity, gaussian.predict), edm.prior(noise), edm.sampling_times(STEPS), perturb
    )


@on_edm
def test_samples_have_the_mean_and_the_variance_of_the_data(gaussian):
    x = sampled(gaussian, Churn(s_churn=30))
    assert x.mean().item() == pytest.approx(gaussian.mean, abs=0.01)
    assert x.var().item() == pytest.approx(gaussian.std**2, rel=0.02)
    correlation = torch.corrcoef(torch.stack([x.flatten(), MANY.flatten()]))[0, 1]
    assert correlation < 0.2  # the noise of the start is forgotten


@on_edm
def test_more_noise_than_the_level_says_widens_the_samples(gaussian):
    few = MANY[:512]
    assert (
        sampled(gaussian, Churn(s_churn=30, s_noise=1.1), few).var()
        > 1.1 * sampled(gaussian, Churn(s_churn=30), few).var()
    )


@on_edm
def test_none_is_the_deterministic_sampler_bit_for_bit(gaussian):
    edm = gaussian.objective
    velocity = partial(edm.velocity, gaussian.predict)
    plain = integrate(Heun(), velocity, edm.prior(MANY[:8]), edm.sampling_times(STEPS))
    assert torch.equal(sampled(gaussian, Churn(s_churn=0), MANY[:8]), plain)
    nowhere = Churn(s_churn=30, s_min=100)
    assert torch.equal(sampled(gaussian, nowhere, MANY[:8]), plain)


def test_levels_rise_inside_the_range_alone_and_by_the_root_of_two_at_most():
    churn = Churn(s_churn=24, s_min=0.05, s_max=50)
    assert raised(churn, 1.0, 240) == pytest.approx(1.1)
    assert raised(churn, 1.0, 24) == pytest.approx(math.sqrt(2))
    assert [raised(churn, sigma, 240) for sigma in (0.04, 51)] == [0.04, 51]
    assert [raised(churn, sigma, 240) for sigma in (0.05, 50)] == pytest.approx([0.055, 55])
    assert raised(Churn(s_churn=24), 1e5, 240) == pytest.approx(1.1e5)
