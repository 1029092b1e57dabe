"""EDM: a preconditioned denoiser under log-normal noise levels (Karras et al. 2022, arXiv 2206.00364, Table 1).

A time is a noise level sigma: x_sigma = x + sigma noise. The denoiser of the network F is D(x; sigma) = c_skip x +
c_out F(c_in x, c_noise), eq. 7, with c_noise = ln(sigma) / 4.

F receives c_noise in place of flow's t, so a family's `time_scale` multiplies it too: the scale maps an interval of
length 1 to what the family's embedding was made for, and c_noise spans an interval of the same order (-1.6 to 1.1 for
the published levels). DiT and SiT, whose scale is 1, thus receive c_noise itself, as in MaskDiT and TREAD.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple

import torch
from torch import Tensor

from tread_bench.diffusion.objectives.base import Objective, Predict
from tread_bench.diffusion.objectives.edm.family import EdmOptions
from tread_bench.model.samples import Samples


class Preconditioning(NamedTuple):
    """Factors (B, 1, 1, 1) of Table 1, and the network's time (B,)."""

    c_skip: Tensor
    c_out: Tensor
    c_in: Tensor
    c_noise: Tensor


@dataclass(frozen=True, slots=True)
class Edm(Objective):
    """The objective of `EdmOptions`. Factors have the dtype of the times, images that of x."""

    config: EdmOptions

    @property
    def validation_times(self) -> tuple[float, ...]:
        """Midpoints of eighths of the quantiles of the training levels."""
        return self._quantiles(8)

    @property
    def similarity_times(self) -> tuple[float, ...]:
        """Midpoints of fifths of the quantiles of the training levels."""
        return self._quantiles(5)

    def _quantiles(self, parts: int) -> tuple[float, ...]:
        log_sigma = NormalDist(self.config.p_mean, self.config.p_std)
        return tuple(math.exp(log_sigma.inv_cdf((k + 0.5) / parts)) for k in range(parts))

    def draw_times(self, samples: Samples) -> Tensor:
        """Draw training levels (B,): ln sigma ~ N(p_mean, p_std^2)."""
        normal = samples.normal("time")
        return (self.config.p_mean + self.config.p_std * normal).exp()

    def corrupt(self, x: Tensor, noise: Tensor, t: Tensor) -> Tensor:
        """Return x + sigma noise (B, C, H, W)."""
        return x + _per_image(t) * noise

    def preconditioning(self, t: Tensor) -> Preconditioning:
        """Compute the factors at noise levels t (B,)."""
        sigma = _per_image(t)
        data = torch.full_like(_per_image(t), self.config.sigma_data)
        c_in = 1 / torch.hypot(sigma, data)
        return Preconditioning((data * c_in).square(), sigma * data * c_in, c_in, t.log() / 4)

    def denoised(self, predict: Predict, x: Tensor, t: Tensor) -> Tensor:
        """Return D(x; sigma) (B, C, H, W), the expected clean image given x (eq. 7)."""
        c_skip, c_out, c_in, c_noise = self.preconditioning(t)
        return c_skip * x + c_out * predict(c_in * x, c_noise).to(x.dtype)

    def errors(self, predict: Predict, x: Tensor, noise: Tensor, t: Tensor) -> Tensor:
        """Return lambda (D - x)^2 of each pixel (B, C, H, W); lambda = 1/sigma^2 + 1/sigma_data^2."""
        error = self.denoised(predict, self.corrupt(x, noise, t), t) - x
        return _per_image(t**-2 + self.config.sigma_data**-2) * error.square()

    def velocity(self, predict: Predict, x_t: Tensor, t: Tensor) -> Tensor:
        """Return dx/dsigma = (x - D(x; sigma)) / sigma (B, C, H, W), eq. 3 with sigma(t) = t."""
        return (x_t - self.denoised(predict, x_t, t)) / _per_image(t)

    def sampling_times(self, steps: int) -> list[float]:
        """Return levels at equal distances in sigma^(1 / rho) from sigma_max to sigma_min, then 0 (eq. 5)."""
        return [self.config.sampling_time(step, steps) for step in range(steps + 1)]

    def prior(self, noise: Tensor) -> Tensor:
        """Return sigma_max noise."""
        return self.config.sigma_max * noise


def _per_image(t: Tensor) -> Tensor:
    return t.view(-1, 1, 1, 1)
