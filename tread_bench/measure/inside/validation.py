"""Validation loss at fixed times with fixed noise: dense, which is comparable between routed and dense training, and at
several rates of bypassed tokens, which shows the gap between training and inference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from tread_bench.core.config.metrics import Metrics
from tread_bench.core.describe.routes import ResolvedRoute, Route, resolve_routes
from tread_bench.core.numbers import draws
from tread_bench.core.stored.records import RoutedFigures, RoutedGap
from tread_bench.data.source import DataSplit
from tread_bench.diffusion.conditioning import held_out_condition
from tread_bench.diffusion.objectives.base import Objective
from tread_bench.model.methods.base import BatchRange, draw_kept
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


@torch.no_grad()
def routed_gap(network: Network, objective: Objective, held_out: DataSplit, metrics: Metrics) -> RoutedGap:
    """Loss at each of `metrics.routed_rates` on `metrics.routed_blocks`.

    Images, noise and times are those of the dense validation loss; an image's mask is the same at all times and for
    every cell and seed, and a higher rate removes more of the same tokens.
    """
    blocks = metrics.routed_blocks
    figures = []
    for rate in metrics.routed_rates:
        routes = resolve_routes([Route(block.start, block.end, rate) for block in blocks], network.num_blocks)
        predicted = partial(_predicted, network, routes)
        losses = validation_losses(network, objective, held_out, metrics.validation_samples, metrics.batch, predicted)
        mean = sum(losses.values()) / len(losses)
        figures.append(RoutedFigures(rate=rate, validation_loss=mean, validation_loss_per_time=losses))
    return RoutedGap(
        blocks=",".join(f"{block.start}:{block.end}" for block in blocks),
        selector=network.method.selector,
        rates=figures,
        num_samples=metrics.validation_samples,
    )


def _predicted(
    network: Network, routes: Sequence[ResolvedRoute], first: int, x: Tensor, y: Tensor | None
) -> Callable[..., Tensor]:
    """What predicts for the held-out images `first` ..."""
    selector, batch_range = network.method.selector, BatchRange(0, first, len(x))
    ids = []
    for route in routes:
        stream = f"held-out route {route.start}:{route.end} {selector}"
        ids.append(draw_kept(stream, batch_range, route, selector, network.spec, x.device))
    return partial(network.backbone, y=y, routes=routes, selector=selector, ids=ids)
