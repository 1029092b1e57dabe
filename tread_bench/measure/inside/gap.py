"""The gap between training and inference: one network at several rates of bypassed tokens, compared with dense."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from tread_bench.core.config.metrics import Metrics
from tread_bench.core.describe.routes import ResolvedRoute, Route, resolve_routes
from tread_bench.core.stored.records import RoutedFigures, RoutedGap
from tread_bench.data.source import DataSplit
from tread_bench.diffusion.objectives.base import Objective
from tread_bench.measure.inside.similarity import TOKENS_AT_A_TIME, block_outputs
from tread_bench.measure.inside.validation import held_out_batches, validation_losses
from tread_bench.model.backbone import TokenState
from tread_bench.model.methods.base import BatchRange, draw_kept
from tread_bench.model.network import Network
from tread_bench.model.ops.routing import gather_tokens, with_prefix


@torch.no_grad()
def routed_gap(network: Network, objective: Objective, held_out: DataSplit, metrics: Metrics) -> RoutedGap:
    """Loss and block outputs at each of `metrics.routed_rates` on `metrics.routed_blocks`.

    Images, noise and times are those of the dense validation loss and of the layer similarity; an image's mask is the
    same at all times, and a higher rate removes more of the same tokens.
    """
    # Figures at each rate.
    times = metrics.similarity_times or objective.similarity_times
    blocks = metrics.routed_blocks
    figures = []
    for rate in metrics.routed_rates:
        routes = resolve_routes([Route(block.start, block.end, rate) for block in blocks], network.num_blocks)
        predicted = partial(_predicted, network, routes)
        losses = validation_losses(network, objective, held_out, metrics.validation_samples, metrics.batch, predicted)
        cosines = _cosines(network, objective, held_out, routes, metrics.similarity_samples, times)
        figures.append(
            RoutedFigures(
                rate=rate,
                validation_loss=sum(losses.values()) / len(losses),
                validation_loss_per_time=losses,
                cosine=cosines.tolist(),
            )
        )

    # The figures, with what they were measured on.
    return RoutedGap(
        blocks=",".join(f"{block.start}:{block.end}" for block in blocks),
        selector=network.method.selector,
        rates=figures,
        times=list(times),
        num_samples=metrics.validation_samples,
        cosine_samples=metrics.similarity_samples,
    )


def _predicted(
    network: Network, routes: Sequence[ResolvedRoute], first: int, x: Tensor, y: Tensor | None
) -> Callable[..., Tensor]:
    """What predicts for the held-out images `first` ..."""
    ids, selector = _masks(network, routes, first, x), network.method.selector
    return partial(network.backbone, y=y, routes=routes, selector=selector, ids=ids)


def _masks(network: Network, routes: Sequence[ResolvedRoute], first: int, x: Tensor) -> list[Tensor]:
    """Kept ids (B, K) of each route for the held-out images `first` ..., the same for every cell and seed."""
    selector, batch_range = network.method.selector, BatchRange(0, first, len(x))
    ids = []
    for route in routes:
        stream = f"held-out route {route.start}:{route.end} {selector}"
        ids.append(draw_kept(stream, batch_range, route, selector, network.spec, x.device))
    return ids


def _cosines(
    network: Network,
    objective: Objective,
    held_out: DataSplit,
    routes: Sequence[ResolvedRoute],
    images: int,
    times: Sequence[float],
) -> Tensor:
    """Mean cosine (L,) of a block's routed to its dense output; inside a route over the tokens kept."""
    prefix = network.backbone.family.num_prefix(network.spec)
    size = max(1, TOKENS_AT_A_TIME // network.spec.num_tokens)
    total = torch.zeros(network.num_blocks, dtype=torch.float64)
    for first, x, y, noise in held_out_batches(network, held_out, images, size):
        predict = _predicted(network, routes, first, x, y)
        kept: dict[int, Tensor] = {}
        for route, ids in zip(routes, _masks(network, routes, first, x), strict=True):
            kept |= dict.fromkeys(route.blocks, with_prefix(ids, prefix))
        for time in times:
            t = torch.full((len(x),), time, device=x.device)
            x_t = objective.corrupt(x, noise, t)
            cosines: list[Tensor] = []
            note = partial(_note_cosine, block_outputs(network, objective, x_t, t, y), kept, cosines)
            objective.velocity(partial(predict, on_block=note), x_t, t)
            total += torch.stack(cosines) / (len(times) * images)
    return total


def _note_cosine(
    dense: Tensor, kept: Mapping[int, Tensor], cosines: list[Tensor], block: int, state: TokenState
) -> None:
    """Append how similar a block's output in a routed pass is to the dense ones (L, B, P + N, D): the mean over tokens,
    the sum over images.
    """
    routed = state.stream()
    expected = dense[block]
    if block in kept:
        expected = gather_tokens(expected, kept[block])
        if state.positions is None:
            routed = gather_tokens(routed, kept[block])
    cosines.append(cosine_similarity(routed.double(), expected.double(), dim=2).mean(1).sum().cpu())
