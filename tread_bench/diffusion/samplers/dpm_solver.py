"""DPM-Solver++ over noise levels (Lu et al. 2022, arXiv 2211.01095, Algorithm 2: multistep, second order)."""

from __future__ import annotations

import math

from torch import Tensor

from tread_bench.diffusion.samplers.integrate import Slope


class DpmSolver:
    """Continues the change of the estimate of the data over the step before, in ln sigma.

    The first step is of first order. So is the one to 0, which ends at the estimate.
    """

    def __init__(self) -> None:
        self.before: tuple[Tensor, float] | None = None  # the estimate of the step before, and its level

    def __call__(self, slope: Slope, x: Tensor, now: float, after: float) -> Tensor:
        clean = estimate = x - now * slope(x, now)
        if self.before is not None and after > 0:
            last, level = self.before
            ratio = math.log(now / after) / math.log(level / now)
            estimate = clean + ratio / 2 * (clean - last)
        self.before = clean, now
        return estimate + after / now * (x - estimate)
