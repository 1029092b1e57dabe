"""The data are predicted, with the error of the velocity (JiT: Li and He, arXiv 2511.13720, section 4).

x_t = (1 - t) x + t s noise, s being the noise scale. The network predicts x; its velocity is (x_t - prediction) /
max(t, m), m being the least time, so that the velocity's error is that of x over max(t, m). The paper's time is 1 - t;
its ln(t / (1 - t)) ~ N(-0.8, 0.8^2) is N(0.8, 0.8^2) here.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tread_bench.diffusion.objectives.base import Objective, Predict
from tread_bench.diffusion.objectives.x_prediction.family import XPredictionOptions
from tread_bench.model.samples import Samples


@dataclass(frozen=True, slots=True)
class XPrediction(Objective):
    """The objective of `XPredictionOptions`."""

    config: XPredictionOptions

    validation_times = tuple((k + 0.5) / 8 for k in range(8))  # midpoints of eighths of [0, 1]
    similarity_times = (0.1, 0.3, 0.5, 0.7, 0.9)

    def draw_times(self, samples: Samples) -> Tensor:
        """Draw training times (B,): the sigmoid of a normal number."""
        normal = samples.normal("time")
        return (self.config.p_mean + self.config.p_std * normal).sigmoid()

    def corrupt(self, x: Tensor, noise: Tensor, t: Tensor) -> Tensor:
        """Return x_t (B, C, H, W)."""
        return torch.lerp(x, self.config.noise_scale * noise, t.view(-1, 1, 1, 1))

    def errors(self, predict: Predict, x: Tensor, noise: Tensor, t: Tensor) -> Tensor:
        """Return the squared velocity error of each pixel (B, C, H, W), in float32."""
        return ((predict(self.corrupt(x, noise, t), t).float() - x) / self._divisor(t)).square()

    def velocity(self, predict: Predict, x_t: Tensor, t: Tensor) -> Tensor:
        """Return dx/dt (B, C, H, W) at times t (B,)."""
        return (x_t - self.clean(predict, x_t, t)) / self._divisor(t)

    def clean(self, predict: Predict, x_t: Tensor, t: Tensor) -> Tensor:
        return predict(x_t, t).to(x_t.dtype)

    def sampling_times(self, steps: int) -> list[float]:
        """Return equal steps from 1 to 0."""
        return [self.config.sampling_time(step, steps) for step in range(steps + 1)]

    def prior(self, noise: Tensor) -> Tensor:
        return self.config.noise_scale * noise

    def _divisor(self, t: Tensor) -> Tensor:
        return t.clamp(min=self.config.least_time).view(-1, 1, 1, 1)
