from __future__ import annotations

import itertools
import math

import pytest
import torch

from tread_bench.config import FlowObjective
from tread_bench.objectives import Flow
from tread_bench.sampling.euler import euler
from tread_bench.sampling.guidance import classifier_free

FLOW = Flow(FlowObjective())


def test_path_ends_in_data_and_noise_and_velocity_is_its_slope():
    x, noise = torch.randn(2, 4, 1, 2, 2, dtype=torch.float64)
    at = lambda t: FLOW.corrupt(x, noise, torch.full((4,), t, dtype=torch.float64))  # noqa: E731
    assert torch.equal(at(0.0), x)
    torch.testing.assert_close(at(1.0), noise)
    torch.testing.assert_close((at(0.7) - at(0.2)) / 0.5, noise - x)


def test_the_true_velocity_has_no_loss():
    x, noise = torch.randn(2, 4, 1, 2, 2)
    t = torch.rand(4)
    assert FLOW.losses(lambda x_t, t: noise - x, x, noise, t).abs().max() == 0
    off = FLOW.losses(lambda x_t, t: noise - x + 0.5, x, noise, t)
    torch.testing.assert_close(off, torch.full((4,), 0.25))


def test_logit_normal_times_have_the_right_quantiles():
    t = FLOW.draw_times(0, 0, 20000)
    for z, share in ((-1, 0.1587), (0, 0.5), (1, 0.8413)):
        assert (t < 1 / (1 + math.exp(-z))).float().mean().item() == pytest.approx(share, abs=0.012)


def test_uniform_times_fill_the_unit_interval():
    t = Flow(FlowObjective(times="uniform")).draw_times(0, 0, 20000)
    assert t.min() >= 0
    assert t.max() < 1
    assert t.mean().item() == pytest.approx(0.5, abs=0.01)


def gaussian_velocity(mean: float, std: float):
    """dx/dt of the linear path whose data are N(mean, std^2): affine in x, with a known solution."""

    def velocity(x, t):
        t = t.view(-1, 1, 1, 1).double()
        variance = (1 - t) ** 2 * std**2 + t**2
        slope = (t - (1 - t) * std**2) / variance
        return -mean + slope * (x - (1 - t) * mean)

    return velocity


def test_euler_carries_noise_to_gaussian_data_with_first_order():
    noise = torch.randn(64, 1, 2, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    exact = 0.3 + 0.5 * noise  # the probability-flow map of two Gaussians is affine
    flow = Flow(FlowObjective())
    errors = [
        (euler(gaussian_velocity(0.3, 0.5), noise, flow.sampling_times(n)) - exact).abs().max().item()
        for n in (100, 200, 400)
    ]
    assert errors[0] < 0.05
    for coarse, fine in itertools.pairwise(errors):
        assert math.log2(coarse / fine) == pytest.approx(1, abs=0.1)


def linear_network(calls):
    def network(x, t, y):
        calls.append(len(x))
        return x * t.view(-1, 1) + y.view(-1, 1).float()

    return network


def test_guidance_is_its_formula_on_a_linear_network():
    calls: list[int] = []
    x, t, y = torch.randn(5, 3), torch.rand(5), torch.arange(5)
    guided = classifier_free(linear_network(calls), y, num_classes=10, scale=2.5)(x, t)
    conditional, unconditional = x * t.view(-1, 1) + y.view(-1, 1), x * t.view(-1, 1) + 10
    torch.testing.assert_close(guided, unconditional + 2.5 * (conditional - unconditional))
    assert calls == [10]


def test_scale_one_makes_one_call_of_the_plain_batch():
    calls: list[int] = []
    x, t, y = torch.randn(5, 3), torch.rand(5), torch.arange(5)
    classifier_free(linear_network(calls), y, num_classes=10, scale=1.0)(x, t)
    assert calls == [5]


def test_guidance_without_labels_is_refused():
    with pytest.raises(ValueError, match="use scale 1"):
        classifier_free(linear_network([]), None, num_classes=0, scale=2.0)
