"""The noise of EDM's stochastic sampler (Karras et al. 2022, Algorithm 2, lines 4 to 6)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tread_bench.core.config.sampling import Churn
from tread_bench.core.numbers import draws
from tread_bench.diffusion.samplers.integrate import Perturb


def raised(churn: Churn, sigma: float, steps: int) -> float:
    """Return the level sigma (1 + gamma) where a step from sigma starts; gamma = min(s_churn / steps, sqrt(2) - 1)."""
    inside = churn.s_min <= sigma <= (math.inf if churn.s_max is None else churn.s_max)
    return sigma * (1 + min(churn.s_churn / steps, math.sqrt(2) - 1)) if inside else sigma


def churned(churn: Churn, steps: int, seed: int, first: int) -> Perturb:
    """Return a function that raises the noise of a batch before a step: x + s_noise sqrt(raised^2 - sigma^2) noise.

    The noise depends only on the sample index (from `first` on) and the step.
    """

    def perturb(x: Tensor, sigma: float, step: int) -> tuple[Tensor, float]:
        level = raised(churn, sigma, steps)
        if level == sigma:
            return x, sigma
        noise = torch.from_numpy(draws.normal(seed, f"churn {step}", first, len(x), tuple(x.shape[1:]))).to(x)
        return x + churn.s_noise * math.sqrt(level**2 - sigma**2) * noise, level

    return perturb
