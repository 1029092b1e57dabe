"""The gap between training and inference: the validation loss of one network at several rates of bypassed tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from tread_bench.core.config.metrics import Metrics
from tread_bench.core.describe.routes import ResolvedRoute, Route, resolve_routes
from tread_bench.core.stored.records import RoutedFigures, RoutedGap
from tread_bench.data.source import DataSplit
from tread_bench.diffusion.objectives.base import Objective
from tread_bench.measure.inside.validation import validation_losses
from tread_bench.model.methods.base import BatchRange, draw_kept
from tread_bench.model.network import Network


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
