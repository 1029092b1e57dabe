"""Objectives that break one rule each, as variants of flow matching and of DDPM."""

from __future__ import annotations

import torch

from tread_bench.diffusion.objectives.ddpm.objective import Ddpm
from tread_bench.diffusion.objectives.flow.objective import Flow


class DrawsFromTorch(Flow):
    def draw_times(self, samples):
        return torch.rand(samples.count, dtype=torch.float64)


class SamplesUpwards(Flow):
    def sampling_times(self, steps):
        return list(reversed(super().sampling_times(steps)))


class LosesTheMean(Flow):
    def losses(self, predict, x, noise, t):
        return self.errors(predict, x, noise, t).flatten(1).mean(1) / 2


class EstimatesTheNoise(Flow):
    def clean(self, predict, x_t, t):
        return x_t + (1 - t.view(-1, 1, 1, 1)) * self.velocity(predict, x_t, t)


class RunsBackwards(Flow):
    def velocity(self, predict, x_t, t):
        return -super().velocity(predict, x_t, t)


class StartsTooNarrow(Flow):
    def prior(self, noise):
        return 0.8 * noise


class IgnoresTheVariance(Ddpm):
    def bound(self, off, learned, x, t):
        return torch.zeros_like(x)


class HidesTheVariance(Ddpm):
    def velocity_and_variance(self, predict, x_t, t):
        return self.velocity(predict, x_t, t)
