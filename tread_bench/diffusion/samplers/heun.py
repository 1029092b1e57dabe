"""Heun's method as EDM samples with it (Karras et al. 2022, Algorithm 1)."""

from __future__ import annotations

from torch import Tensor

from tread_bench.diffusion.samplers.integrate import Velocity, batch_of


def heun_step(velocity: Velocity, x: Tensor, now: float, after: float) -> Tensor:
    """x at `after` from x at `now`, along the mean of the slopes at both ends: second order, two calls.

    The step to 0 is Euler's, with one call: EDM's slope (x - D) / sigma has no value there.
    """
    slope = velocity(x, batch_of(now, x))
    reached = x + (after - now) * slope
    if after == 0:
        return reached
    return x + (after - now) * (slope + velocity(reached, batch_of(after, x))) / 2
