from __future__ import annotations

import itertools
import math
from functools import partial

import pytest
import torch

from tread_bench.core.describe.objectives import find_sampler, samplers
from tread_bench.diffusion.objectives.flow.objective import Flow
from tread_bench.diffusion.samplers.integrate import build_sampler, integrate

NOISE = torch.randn(16, 1, 2, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def sampler_of(name):
    return build_sampler(find_sampler(name))


DETERMINISTIC = [one for one in samplers().values() if not one.draws_noise]


@pytest.mark.parametrize(("sampler", "order"), [(one.name, one.order) for one in DETERMINISTIC])
def test_error_falls_with_the_order_of_the_method(gaussian, sampler, order):
    objective, errors = gaussian.objective, []
    if find_sampler(sampler).needs_noise_levels and isinstance(objective, Flow):
        pytest.skip("its times are no noise levels")
    for steps in (128, 256, 512):
        times = objective.sampling_times(steps + 1)[:-1]  # without the step to 0, which is Euler's
        x = integrate(sampler_of(sampler), partial(objective.velocity, gaussian.predict), objective.prior(NOISE), times)
        errors.append((x - gaussian.exact(NOISE, times[-1])).abs().max().item())
    for coarse, fine in itertools.pairwise(errors):
        assert math.log2(coarse / fine) == pytest.approx(order, abs=0.1)


@pytest.mark.parametrize("sampler", ["euler", "heun"])
def test_noise_becomes_the_data(gaussian, sampler):
    objective = gaussian.objective
    velocity = partial(objective.velocity, gaussian.predict)
    x = integrate(sampler_of(sampler), velocity, objective.prior(NOISE), objective.sampling_times(400))
    torch.testing.assert_close(x, gaussian.exact(NOISE, 0.0), rtol=0, atol=0.03 if sampler == "euler" else 1e-3)
