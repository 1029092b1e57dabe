"""Flow matching on the linear path with velocity prediction (Lipman et al. 2023; SiT; TREAD's rectified-flow rule).

x_t = (1 - t) x + t noise, target v = noise - x, so that t = 1 is noise and t = 0 is data.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tread_bench.diffusion.objectives.base import Objective, Predict
from tread_bench.diffusion.objectives.flow.family import FlowOptions
from tread_bench.model.samples import Samples


@dataclass(frozen=True, slots=True)
class Flow(Objective):
    """The objective of `FlowOptions`."""

    config: FlowOptions

    validation_times = tuple((k + 0.5) / 8 for k in range(8))  # midpoints of eighths of [0, 1]
    similarity_times = (0.1, 0.3, 0.5, 0.7, 0.9)

    def draw_times(self, samples: Samples) -> Tensor:
        """Draw training times (B,): uniform, or sigmoid of a standard normal (Esser et al. 2024, section 3.1)."""
        if self.config.times == "uniform":
            return samples.uniform("time")
        return samples.normal("time").sigmoid()

    def errors(self, predict: Predict, x: Tensor, noise: Tensor, t: Tensor) -> Tensor:
        """Return the squared velocity error of each pixel (B, C, H, W), in float32."""
        return (predict(self.corrupt(x, noise, t), t).float() - (noise - x)).square()

    def corrupt(self, x: Tensor, noise: Tensor, t: Tensor) -> Tensor:
        """Return x_t (B, C, H, W)."""
        return torch.lerp(x, noise, t.view(-1, 1, 1, 1))

    def velocity(self, predict: Predict, x_t: Tensor, t: Tensor) -> Tensor:
        """Return dx/dt (B, C, H, W) at times t (B,)."""
        return predict(x_t, t).to(x_t.dtype)

    def sampling_times(self, steps: int) -> list[float]:
        """Return equal steps from 1 to 0."""
        return [self.config.sampling_time(step, steps) for step in range(steps + 1)]

    def prior(self, noise: Tensor) -> Tensor:
        return noise
