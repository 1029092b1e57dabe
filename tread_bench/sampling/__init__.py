"""Generating images: noise by sample index, labels balanced over classes, any batch size."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from tread_bench import draws
from tread_bench.config import Sampling
from tread_bench.methods import Network
from tread_bench.objectives import Objective
from tread_bench.sampling.euler import euler
from tread_bench.sampling.guidance import classifier_free

__all__ = ["generate"]


def generate(
    network: Network, objective: Objective, sampling: Sampling, seed: int, num_samples: int, batch: int
) -> Iterator[Tensor]:
    """Batches of images (B, C, H, W), float32, dense. Sample i has noise and label by its index alone."""
    spec, device = network.spec, next(network.parameters()).device
    shape = (spec.channels, spec.image_size, spec.image_size)
    for first in range(0, num_samples, batch):
        count = min(batch, num_samples - first)
        noise = torch.from_numpy(draws.normal(seed, "sampling noise", first, count, shape)).to(device)
        y = torch.arange(first, first + count, device=device) % spec.num_classes if spec.num_classes else None
        predict = classifier_free(network, y, spec.num_classes, sampling.guidance_scale)
        with torch.no_grad():
            times = objective.sampling_times(sampling.steps)
            yield euler(partial(objective.velocity, predict), objective.prior(noise), times)
