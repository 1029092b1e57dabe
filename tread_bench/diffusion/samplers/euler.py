"""Euler's method."""

from __future__ import annotations

from torch import Tensor

from tread_bench.diffusion.samplers.integrate import Slope


class Euler:
    """Takes x from time `now` to `after` along the slope at `now`: first order, one call."""

    def __call__(self, slope: Slope, x: Tensor, now: float, after: float) -> Tensor:
        return x + (after - now) * slope(x, now)
