from __future__ import annotations

import pytest
import torch

from tread_bench.diffusion.objectives.x_prediction.family import XPredictionOptions
from tread_bench.diffusion.objectives.x_prediction.objective import XPrediction


@pytest.mark.parametrize("noise_scale", [1.0, 2.0])
def test_the_loss_is_the_error_of_the_velocity_in_the_paper_s_time(noise_scale):
    """z = s x + (1 - s) e, v = (x - z) / max(1 - s, 0.05), for prediction and data alike, at s = 1 - t."""
    x, noise, prediction = torch.randn(3, 5, 2, 4, 4, generator=torch.Generator().manual_seed(0))
    t = torch.tensor([0.0, 0.02, 0.05, 0.5, 1.0])
    objective = XPrediction(XPredictionOptions(noise_scale=noise_scale))
    s = (1 - t).view(-1, 1, 1, 1)
    z = s * x + (1 - s) * noise_scale * noise
    velocity, predicted = ((one - z) / (1 - s).clamp_min(0.05) for one in (x, prediction))
    seen = []
    predict = lambda *inputs: seen.append(inputs) or prediction  # noqa: E731

    losses = objective.losses(predict, x, noise, t)
    torch.testing.assert_close(losses, (velocity - predicted).square().flatten(1).mean(1), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(seen[0][0], z)
    assert torch.equal(seen[0][1], t)
    torch.testing.assert_close(objective.velocity(predict, z, t), -predicted, rtol=1e-4, atol=1e-4)
    assert torch.equal(objective.clean(predict, z, t), prediction)
    assert torch.equal(objective.prior(noise), noise_scale * noise)
