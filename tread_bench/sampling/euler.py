"""Euler's method from noise (t = 1) to data (t = 0)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor


def euler(velocity: Callable[[Tensor, Tensor], Tensor], noise: Tensor, steps: int) -> Tensor:
    """Integrate dx/dt = velocity(x, t) over `steps` equal steps; `velocity` takes t as (B,)."""
    x = noise
    times = torch.linspace(1, 0, steps + 1, dtype=torch.float64).tolist()
    for now, after in pairwise(times):
        x = x + (after - now) * velocity(x, torch.full((len(x),), now, device=x.device))
    return x
