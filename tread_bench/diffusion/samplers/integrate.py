"""Integration from noise to data: the steps of a sampler in sequence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor

from tread_bench.core.describe.objectives import SamplerFamily
from tread_bench.core.describe.plugins import named

Velocity = Callable[[Tensor, Tensor], Tensor]  # (x, t), t of shape (B,) -> dx/dt
Slope = Callable[[Tensor, float], Tensor]  # (x, t) -> dx/dt, at one time for all samples
Step = Callable[..., Tensor]  # (slope, x, from t, to t), and noise if the sampler draws any -> x
Perturb = Callable[[Tensor, float, int], tuple[Tensor, float]]  # (x, t, step) -> x and t that the step starts from
Noise = Callable[[Tensor, int], Tensor]  # (x, step) -> standard normal noise of x's shape


def integrate(
    step: Step,
    velocity: Velocity,
    x: Tensor,
    times: Sequence[float],
    perturb: Perturb | None = None,
    noise: Noise | None = None,
) -> Tensor:
    """Integrate dx/dt = velocity(x, t) from x (B, ...) at the first of `times` to the last, in the dtype of x.

    Args:
        perturb: what changes x before a step.
        noise: what a step of a sampler that draws noise is given.
    """

    def slope(x: Tensor, time: float) -> Tensor:
        return velocity(x, torch.full((len(x),), time, dtype=x.dtype, device=x.device))

    for number, (now, after) in enumerate(pairwise(times)):
        start, at = perturb(x, now, number) if perturb else (x, now)
        drawn = (noise(x, number),) if noise else ()
        x = step(slope, start, at, after, *drawn)
    return x


def build_sampler(family: SamplerFamily) -> Step:
    """Build the step function for one batch of samples."""
    step: Step = named(family.builder)()
    return step
