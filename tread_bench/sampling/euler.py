"""Euler's method along the probability flow, from noise to data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor


def euler(velocity: Callable[[Tensor, Tensor], Tensor], x: Tensor, times: Sequence[float]) -> Tensor:
    """Integrate dx/dt = velocity(x, t) from x at the first of `times` to the last; `velocity` takes t as (B,)."""
    for now, after in pairwise(times):
        x = x + (after - now) * velocity(x, torch.full((len(x),), now, device=x.device))
    return x
