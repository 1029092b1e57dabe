"""Heun's method as used in EDM (Karras et al. 2022, Algorithm 1)."""

from __future__ import annotations

from torch import Tensor

from tread_bench.diffusion.samplers.integrate import Slope


class Heun:
    """Takes x from time `now` to `after` along the mean of the slopes at both ends: second order, two calls.

    The step to 0 is an Euler step, with one call: EDM's slope (x - D) / sigma is undefined there.
    """

    def __call__(self, slope: Slope, x: Tensor, now: float, after: float) -> Tensor:
        first = slope(x, now)
        reached = x + (after - now) * first
        if after == 0:
            return reached
        return x + (after - now) * (first + slope(reached, after)) / 2
