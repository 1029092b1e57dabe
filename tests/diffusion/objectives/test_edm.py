from __future__ import annotations

import itertools
import math

import pytest
import torch

from tread_bench.diffusion.objectives.edm.family import EdmOptions
from tread_bench.diffusion.objectives.edm.objective import Edm

CONFIG = EdmOptions(sigma_data=0.7, p_mean=-0.8, p_std=1.1)
EDM = Edm(CONFIG)
SIGMA = torch.logspace(-3, 3, 61, dtype=torch.float64)


def test_preconditioning_has_unit_variances_and_amplifies_errors_least():
    """Of inputs, and of targets x - c_skip (x + sigma noise); eq. 7 and appendix B.6 of Karras et al. 2022."""
    c_skip, c_out, c_in, _ = (factor.flatten() for factor in EDM.preconditioning(SIGMA))
    torch.testing.assert_close(c_in**2 * (SIGMA**2 + CONFIG.sigma_data**2), torch.ones_like(SIGMA))

    def variance(skip):
        return ((1 - skip) * CONFIG.sigma_data) ** 2 + (skip * SIGMA) ** 2

    torch.testing.assert_close(variance(c_skip), c_out**2)
    assert all((variance(other) > c_out**2).all() for other in (c_skip - 0.01, c_skip + 0.01))


def test_network_is_given_the_scaled_image_and_a_quarter_of_the_log_level():
    given = []
    x, sigma = torch.randn(3, 1, 2, 2), torch.tensor([0.1, 1.0, 20.0])
    EDM.denoised(lambda *inputs: given.append(inputs) or x, x, sigma)
    torch.testing.assert_close(given[0][0], x / torch.sqrt(sigma**2 + 0.7**2).view(-1, 1, 1, 1))
    torch.testing.assert_close(given[0][1], torch.log(sigma) / 4)


def test_loss_is_the_squared_error_of_the_network_against_its_effective_target():
    x, noise = torch.randn(2, len(SIGMA), 1, 2, 2, dtype=torch.float64)
    c_skip, c_out, _, _ = EDM.preconditioning(SIGMA)
    target = (x - c_skip * EDM.corrupt(x, noise, SIGMA)) / c_out
    torch.testing.assert_close(EDM.losses(lambda *_: target, x, noise, SIGMA), torch.zeros_like(SIGMA))
    off = EDM.losses(lambda *_: target + 0.5, x, noise, SIGMA)  # lambda c_out^2 = 1 at every level
    torch.testing.assert_close(off, torch.full_like(SIGMA, 0.25))


@pytest.mark.parametrize(("times", "parts"), [(EDM.validation_times, 8), (EDM.similarity_times, 5)])
def test_fixed_levels_halve_equal_shares_of_the_training_levels(times, parts):
    shares = [0.5 + 0.5 * math.erf((math.log(sigma) + 0.8) / (1.1 * math.sqrt(2))) for sigma in times]
    assert shares == pytest.approx([(k + 0.5) / parts for k in range(parts)])


def test_sampling_levels_are_equally_far_apart_in_the_root_and_end_in_zero():
    levels = Edm(EdmOptions()).sampling_times(18)
    assert len(levels) == 19
    assert (levels[0], levels[-2], levels[-1]) == (pytest.approx(80), pytest.approx(0.002), 0)
    steps = [a ** (1 / 7) - b ** (1 / 7) for a, b in itertools.pairwise(levels[:-1])]
    assert steps == pytest.approx([steps[0]] * 17)
    assert Edm(EdmOptions()).sampling_times(1) == [pytest.approx(80), 0]
    assert torch.equal(EDM.prior(torch.ones(2)), torch.full((2,), 80.0))
    widest = EdmOptions(sigma_min=1e-6, sigma_max=1e6, rho=1)
    assert Edm(widest).sampling_times(3) == pytest.approx([1e6, (1e6 + 1e-6) / 2, 1e-6, 0], rel=1e-12)
