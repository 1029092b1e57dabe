from __future__ import annotations

import math

import pytest
import torch

from tread_bench.diffusion.objectives.flow.family import FlowOptions
from tread_bench.diffusion.objectives.flow.objective import Flow

FLOW = Flow(FlowOptions())


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
    t = Flow(FlowOptions(times="uniform")).draw_times(0, 0, 20000)
    assert t.min() >= 0
    assert t.max() < 1
    assert t.mean().item() == pytest.approx(0.5, abs=0.01)
