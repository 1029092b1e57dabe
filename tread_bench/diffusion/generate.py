"""Generating images: noise and masks by sample index, labels balanced over classes, any batch size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import torch
from torch import Tensor

from tread_bench.core import draws
from tread_bench.core.config.sampling import Sampling
from tread_bench.diffusion.guidance import Guided
from tread_bench.diffusion.objectives.base import Objective, Predict
from tread_bench.diffusion.samplers.build import build_sampler
from tread_bench.diffusion.samplers.churn import churned
from tread_bench.diffusion.samplers.integrate import integrate
from tread_bench.model.methods.base import BatchRange
from tread_bench.model.network import Network


def generate(
    network: Network,
    objective: Objective,
    sampling: Sampling,
    seed: int,
    num_samples: int,
    batch: int,
    weak: Network | None = None,
    labels: Sequence[int] | None = None,
) -> Iterator[Tensor]:
    """Batches of images (B, C, H, W), float32. Sample i has noise, label and masks by its index alone.

    Args:
        weak: the network of guidance's weak branch, where that has weights of its own.
        labels: taken in turn; None: all classes.

    The network computes in float32. What is integrated is held in float64, as in EDM's code: where steps are short
    and many, rounding the state would add up, and on images this costs nothing beside the network.
    """
    spec = network.spec
    device = next(network.parameters()).device
    shape = (spec.channels, spec.image_size, spec.image_size)
    times = objective.sampling_times(sampling.steps)
    if labels is None:
        labels = range(spec.num_classes)

    for first in range(0, num_samples, batch):
        # Noise and labels of the samples of this batch.
        count = min(batch, num_samples - first)
        noise = torch.from_numpy(draws.normal(seed, "sampling noise", first, count, shape)).to(device)
        y = _labels(labels, first, count, device)

        # What is integrated: the guided prediction's velocity, with fresh noise before each step where churn is set.
        predict = Guided(network, sampling, times, BatchRange(seed, first, count), y, weak)
        velocity = partial(objective.velocity, _in_float32(predict))
        perturb = churned(sampling.churn, sampling.steps, seed, first) if sampling.churn else None

        # From noise to images.
        with torch.no_grad():
            start = objective.prior(noise.double())
            images = integrate(build_sampler(sampling.sampler_family), velocity, start, times, perturb)
        predict.check_complete()
        yield images.float()


def _labels(in_turn: Sequence[int], first: int, count: int, device: torch.device) -> Tensor | None:
    """Labels (B,) of samples `first` ..; None where there are none to take."""
    if not in_turn:
        return None
    return torch.tensor(in_turn, device=device)[torch.arange(first, first + count, device=device) % len(in_turn)]


def _in_float32(predict: Predict) -> Predict:
    return lambda x, t: predict(x.float(), t.float())
