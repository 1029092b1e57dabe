"""Euler's method."""

from __future__ import annotations

from torch import Tensor

from tread_bench.diffusion.samplers.integrate import Velocity, batch_of


def euler_step(velocity: Velocity, x: Tensor, now: float, after: float) -> Tensor:
    """x at `after` from x at `now`, along the slope at `now`: first order, one call."""
    return x + (after - now) * velocity(x, batch_of(now, x))
