"""Dense validation loss at fixed times with fixed noise: comparable between routed and dense training."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import torch
from torch import Tensor

from tread_bench.core.numbers import draws
from tread_bench.data.source import DataSplit
from tread_bench.diffusion.conditioning import held_out_condition
from tread_bench.diffusion.objectives.base import Objective
from tread_bench.model.network import Network


@torch.no_grad()
def validation_losses(
    network: Network,
    objective: Objective,
    held_out: DataSplit,
    num_samples: int,
    batch: int,
    predicted: Callable[[int, Tensor, Tensor | None], Callable[..., Tensor]] | None = None,
) -> dict[str, float]:
    """Mean loss over the first `num_samples` held-out images at each of the objective's 8 times.

    The noise of an image is the same for every cell, whatever its seed, and for every time.

    Args:
        predicted: (first held-out image, images, their condition) -> what predicts for them; None: the network, dense.
    """
    totals = dict.fromkeys(objective.validation_times, 0.0)
    for first, x, y, noise in held_out_batches(network, held_out, num_samples, batch):
        predict = partial(network, y=y) if predicted is None else predicted(first, x, y)
        for time in totals:
            t = torch.full((len(x),), time, device=x.device)
            losses = objective.losses(predict, x, noise, t)
            totals[time] += losses.double().sum().item()
    return {f"{time:g}": total / num_samples for time, total in totals.items()}


def held_out_batches(
    network: Network, held_out: DataSplit, num_samples: int, batch: int
) -> Iterator[tuple[int, Tensor, Tensor | None, Tensor]]:
    """Yield the first `num_samples` held-out images, their labels or text, and their fixed noise, on the network's
    device, `batch` at a time, each time behind the number of the first.
    """
    device = next(network.parameters()).device
    for first in range(0, num_samples, batch):
        index = np.arange(first, min(first + batch, num_samples))
        x = held_out.images(index)
        noise = torch.from_numpy(draws.normal(0, "held-out noise", first, len(index), tuple(x.shape[1:])))
        y = held_out_condition(network.spec, held_out, first, len(index))
        yield first, x.to(device), None if y is None else y.to(device), noise.to(device)
