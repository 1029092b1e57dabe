"""Samplers that break one rule each."""

from __future__ import annotations

import torch

from tread_bench.diffusion.samplers.ddpm import Ddpm
from tread_bench.diffusion.samplers.euler import Euler
from tread_bench.diffusion.samplers.heun import Heun


class RoundsToFloat32(Euler):
    def __call__(self, slope, x, now, after):
        return super().__call__(slope, x, now, after).float()


class CallsTwice(Euler):
    def __call__(self, slope, x, now, after):
        slope(x, now)
        return super().__call__(slope, x, now, after)


class CallsNever(Euler):
    def __call__(self, slope, x, now, after):
        return x


class TakesHalfOfTheSecondSlope(Heun):
    def __call__(self, slope, x, now, after):
        first = slope(x, now)
        second = slope(x + (after - now) * first, after) if after else first
        return x + (after - now) * (3 * first + second) / 4


class StepsByTheBatch(Euler):
    def __call__(self, slope, x, now, after):
        return x + (after - now) * slope(x, now) * (1 + 0.01 * (after - now) * x.mean())


class TwoStep:
    """Adams-Bashforth of two steps, which noise between them would break."""

    def __init__(self):
        self.before = None

    def __call__(self, slope, x, now, after):
        here, h = slope(x, now), after - now
        step = h * here
        if self.before is not None:
            last, length = self.before
            step = step + h * h / (2 * length) * (here - last)
        self.before = here, h
        return x + step


class AddsNoNoise(Ddpm):
    def __call__(self, slope, x, now, after, noise):
        return super().__call__(slope, x, now, after, torch.zeros_like(noise))
