"""From noise to data: the steps of a sampler, one after another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor

Velocity = Callable[[Tensor, Tensor], Tensor]  # (x, t), t of shape (B,) -> dx/dt
Step = Callable[[Velocity, Tensor, float, float], Tensor]  # (velocity, x, from t, to t) -> x
Perturb = Callable[[Tensor, float, int], tuple[Tensor, float]]  # (x, t, step) -> x and t that the step starts from


def integrate(
    step: Step, velocity: Velocity, x: Tensor, times: Sequence[float], perturb: Perturb | None = None
) -> Tensor:
    """Integrate dx/dt = velocity(x, t) from x (B, ...) at the first of `times` to the last, in the dtype of x."""
    for number, (now, after) in enumerate(pairwise(times)):
        start, at = perturb(x, now, number) if perturb else (x, now)
        x = step(velocity, start, at, after)
    return x


def batch_of(time: float, x: Tensor) -> Tensor:
    """The same time (B,) for every sample of x, in its dtype."""
    return torch.full((len(x),), time, dtype=x.dtype, device=x.device)
