"""DDPM: the noise of one of 1,000 levels is predicted (Ho et al. 2020, arXiv 2006.11239), with a learned variance on
request (Nichol and Dhariwal 2021, arXiv 2102.09672, section 3.1), as in ADM and DiT.

DDPM's z_k = sqrt(a_k) x + sqrt(1 - a_k) noise is x_sigma = x + sigma noise times sqrt(a_k) = 1 / sqrt(1 + sigma^2). A
time is that noise level sigma, as in EDM, so that every sampler over noise levels fits both. The network is shown z_k
and is told k, from 0; a level between two steps has a k between theirs, interpolated in ln sigma.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from tread_bench.diffusion.objectives.base import Objective, Predict
from tread_bench.diffusion.objectives.ddpm.family import SCHEDULES, STEPS, DdpmOptions, noise_levels
from tread_bench.diffusion.posterior import log_variances
from tread_bench.model.samples import Samples

ROUNDING = 1e-3  # of a step: float32 holds the level of a step to 1e-5 of a step
BIN = 1 / 255  # half of the distance between two values of an 8-bit pixel in -1 .. 1
LEAST_PROBABILITY = 1e-12


@dataclass(frozen=True, slots=True)
class Ddpm(Objective):
    """The objective of `DdpmOptions`."""

    config: DdpmOptions

    @property
    def validation_times(self) -> tuple[float, ...]:
        """The levels in the middle of eighths of the steps."""
        return self._middles(8)

    @property
    def similarity_times(self) -> tuple[float, ...]:
        """The levels in the middle of fifths of the steps."""
        return self._middles(5)

    def _middles(self, parts: int) -> tuple[float, ...]:
        levels = noise_levels(self.config.schedule)
        return tuple(levels[(2 * part + 1) * STEPS // (2 * parts)] for part in range(parts))

    def draw_times(self, samples: Samples) -> Tensor:
        """Draw the levels (B,) of steps that are equally probable."""
        steps = samples.integers("time", STEPS)
        return torch.tensor(noise_levels(self.config.schedule)).to(steps.device, non_blocking=True)[steps]

    def corrupt(self, x: Tensor, noise: Tensor, t: Tensor) -> Tensor:
        """Return x + sigma noise (B, C, H, W)."""
        return x + _per_image(t) * noise

    def levels(self, device: torch.device) -> Tensor:
        """Return the levels of all steps (1000,), ascending, computed in float64 on the device."""
        first, last, root = SCHEDULES[self.config.schedule]
        ends = first ** (1 / root), last ** (1 / root)
        kept = (1 - torch.linspace(*ends, STEPS, dtype=torch.float64, device=device) ** root).cumprod(0)
        return ((1 - kept) / kept).sqrt()

    def steps(self, t: Tensor) -> Tensor:
        """Return the steps (B,) in 0 .. 999, float64, of noise levels t (B,), interpolated between two."""
        levels, level = self.levels(t.device).log(), t.double().log()
        above = torch.searchsorted(levels, level).clamp(1, STEPS - 1)
        step = above - 1 + (level - levels[above - 1]) / (levels[above] - levels[above - 1])
        nearest = step.round()
        return torch.where((step - nearest).abs() < ROUNDING, nearest, step).clamp(0, STEPS - 1)

    def output(self, predict: Predict, x_t: Tensor, t: Tensor) -> Tensor:
        """Return what the network says of x_t (B, C, H, W): the noise, and behind it, if learned, the variance."""
        scaled = x_t * (1 + _per_image(t).square()).rsqrt().to(x_t.dtype)
        return predict(scaled, self.steps(t).to(t.dtype)).to(x_t.dtype)

    def errors(self, predict: Predict, x: Tensor, noise: Tensor, t: Tensor) -> Tensor:
        """Return the squared error of the noise for each pixel (B, C, H, W), and where a variance is learned the bound.

        The bound trains the variance alone: L_simple + 0.001 L_vlb, whose sum over 1,000 steps one step stands for.
        """
        output = self.output(predict, self.corrupt(x, noise, t), t)
        off = output[:, : x.shape[1]] - noise
        if not self.config.learned_variance:
            return off.square()
        return off.square() + self.bound(off.detach(), output[:, x.shape[1] :], x, t)

    def bound(self, off: Tensor, learned: Tensor, x: Tensor, t: Tensor) -> Tensor:
        """Return each pixel's term of the variational bound, in bits (B, C, H, W).

        It is the KL divergence of the network's step from the posterior given the data, and at the first step -log p(x)
        of 8-bit pixels.

        Args:
            off: error of the predicted noise.
            learned: -1 is the posterior's variance, 1 is beta.
        """
        # Each sample's level, and the one below.
        levels = self.levels(t.device)
        step = _per_image(self.steps(t).round().long())
        is_first = step == 0
        now, after = levels[step], torch.where(is_first, 0.0, levels[(step - 1).clamp(min=0)])

        # The smallest and the largest variance; the posterior's is 0 at the first step, where the second's counts.
        smallest, largest = log_variances(now, after)
        smallest = torch.where(is_first, log_variances(levels[1], levels[0])[0] - levels[0].square().log1p(), smallest)
        smallest, largest = smallest.to(x.dtype), largest.to(x.dtype)
        log_variance = smallest + (learned + 1) / 2 * (largest - smallest)

        # The distance of the means, and the two terms.
        distance = (now * (1 - (after / now).square())).to(x.dtype) * off
        kl = _kl(distance, smallest, log_variance)
        return torch.where(is_first, -_log_probability(x, distance, log_variance), kl) / math.log(2)

    def velocity(self, predict: Predict, x_t: Tensor, t: Tensor) -> Tensor:
        """Return dx/dsigma (B, C, H, W), which is the predicted noise."""
        return self.output(predict, x_t, t)[:, : x_t.shape[1]]

    def velocity_and_variance(self, predict: Predict, x_t: Tensor, t: Tensor) -> Tensor:
        """Return the predicted noise and the learned variance behind it (B, 2C, H, W)."""
        return self.output(predict, x_t, t)

    def sampling_times(self, steps: int) -> list[float]:
        """Return every n-th level from the last step to the first, then 0."""
        return [self.config.sampling_time(step, steps) for step in range(steps + 1)]

    def prior(self, noise: Tensor) -> Tensor:
        """Return the start: x_sigma whose z is the noise itself, at the level of the last step."""
        return math.hypot(1.0, self.config.time_range[1]) * noise


def _per_image(t: Tensor) -> Tensor:
    return t.view(-1, 1, 1, 1)


def _kl(distance: Tensor, log_variance: Tensor, other: Tensor) -> Tensor:
    """KL divergence of a normal distribution from the one with variance exp(`other`), in nats."""
    spread = (log_variance - other).exp() + distance.square() * (-other).exp()
    return (spread + other - log_variance - 1) / 2


def _log_probability(x: Tensor, distance: Tensor, log_variance: Tensor) -> Tensor:
    """Log probability of the 8-bit value x under a normal distribution with mean x - `distance`, in nats.

    The values at both ends take the tails. As in ADM, the normal distribution function is approximated by tanh.
    """
    scale = (-log_variance / 2).exp()
    below, above = _normal_cdf(scale * (distance - BIN)), _normal_cdf(scale * (distance + BIN))
    inside = torch.where(x > 0.999, 1 - below, above - below)
    return torch.where(x < -0.999, above, inside).clamp(min=LEAST_PROBABILITY).log()


def _normal_cdf(x: Tensor) -> Tensor:
    return (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2
