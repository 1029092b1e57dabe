"""Data whose ideal denoiser is known: every pixel is N(MEAN, STD^2), so that the probability flow has a closed form."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from tread_bench.diffusion.objectives.base import Objective, Predict
from tread_bench.diffusion.objectives.ddpm.family import DdpmOptions
from tread_bench.diffusion.objectives.ddpm.objective import Ddpm
from tread_bench.diffusion.objectives.edm.family import EdmOptions
from tread_bench.diffusion.objectives.edm.objective import Edm
from tread_bench.diffusion.objectives.flow.family import FlowOptions
from tread_bench.diffusion.objectives.flow.objective import Flow

MEAN, STD = 0.3, 0.4


@dataclass
class Gaussian:
    """An objective, its ideal network on Gaussian data, and the exact flow that this network generates."""

    objective: Objective
    predict: Predict
    mean: float = MEAN
    std: float = STD

    def exact(self, noise: Tensor, time: float) -> Tensor:
        """Where the flow that starts at the prior of `noise` is at `time`."""
        first = self.objective.sampling_times(1)[0]
        start = self.objective.prior(noise)
        return self.mean_at(time) + (start - self.mean_at(first)) * self.std_at(time) / self.std_at(first)

    def mean_at(self, time: float) -> float:
        return MEAN * (1 - time) if isinstance(self.objective, Flow) else MEAN

    def std_at(self, time: float) -> float:
        share = 1 - time if isinstance(self.objective, Flow) else 1.0
        return math.hypot(share * STD, time)


def flow_network(x: Tensor, t: Tensor) -> Tensor:
    """E[noise - data | x_t]."""
    t = t.view(-1, 1, 1, 1)
    slope = (t - (1 - t) * STD**2) / ((1 - t) ** 2 * STD**2 + t**2)
    return -MEAN + slope * (x - (1 - t) * MEAN)


def edm_network(edm: Edm) -> Predict:
    """F such that c_skip x + c_out F is E[data | x_sigma]."""

    def network(scaled: Tensor, c_noise: Tensor) -> Tensor:
        sigma = (4 * c_noise).exp()
        c_skip, c_out, c_in, _ = edm.preconditioning(sigma)
        x, variance = scaled / c_in, sigma.view(-1, 1, 1, 1) ** 2
        return ((STD**2 * x + variance * MEAN) / (STD**2 + variance) - c_skip * x) / c_out

    return network


def ddpm_network(ddpm: Ddpm) -> Predict:
    """E[noise | z_k], for steps k between which levels are interpolated in their logarithm."""

    def network(scaled: Tensor, step: Tensor) -> Tensor:
        levels, below = ddpm.levels(step.device).log(), step.long().clamp(max=998)
        sigma = torch.lerp(levels[below], levels[below + 1], step.double() - below).exp().view(-1, 1, 1, 1)
        x = scaled * (1 + sigma**2).sqrt()
        return sigma * (x - MEAN) / (STD**2 + sigma**2)

    return network


@pytest.fixture(params=["flow", "edm", "ddpm"])
def gaussian(request) -> Gaussian:
    if request.param == "flow":
        return Gaussian(Flow(FlowOptions()), flow_network)
    if request.param == "ddpm":
        ddpm = Ddpm(DdpmOptions())
        return Gaussian(ddpm, ddpm_network(ddpm))
    edm = Edm(EdmOptions())
    return Gaussian(edm, edm_network(edm))
