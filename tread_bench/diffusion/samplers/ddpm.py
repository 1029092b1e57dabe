"""DDPM's ancestral sampling over noise levels (Ho et al. 2020, arXiv 2006.11239, Algorithm 2)."""

from __future__ import annotations

import torch
from torch import Tensor

from tread_bench.diffusion.posterior import log_variances
from tread_bench.diffusion.samplers.integrate import Slope


class Ddpm:
    """Draws x at level `after` from the posterior, with the estimate x - sigma slope in place of the data.

    The variance is the one that the network has learned, else the posterior's. The step to 0 ends at the estimate.
    """

    def __call__(self, slope: Slope, x: Tensor, now: float, after: float, noise: Tensor) -> Tensor:
        # The mean.
        output = slope(x, now)
        velocity, learned = output.tensor_split([x.shape[1]], dim=1)
        clean = x - now * velocity
        if after == 0:
            return clean
        mean = torch.lerp(clean, x, (after / now) ** 2)

        # The noise.
        log_variance, largest = log_variances(x.new_full((), now), x.new_full((), after))
        if learned.shape[1]:
            log_variance = torch.lerp(log_variance, largest, (learned + 1) / 2)
        return mean + (log_variance / 2).exp() * noise
