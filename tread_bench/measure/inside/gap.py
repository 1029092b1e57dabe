"""The gap of training to inference: one network at several rates of bypassed tokens, beside itself run dense."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from tread_bench.core.config import Metrics
from tread_bench.core.records import RoutedFigures, RoutedGap
from tread_bench.core.routes import Route
from tread_bench.data.source import Samples
from tread_bench.diffusion.objectives import Objective
from tread_bench.measure.inside.similarity import TOKENS_AT_A_TIME, block_outputs
from tread_bench.measure.inside.validation import held_out_batch
from tread_bench.model.backbone import OnBlock, TokenState
from tread_bench.model.methods.base import Rows, draw_kept
from tread_bench.model.network import Network
from tread_bench.model.ops.routing import gather_tokens, with_prefix


@torch.no_grad()
def routed_gap(network: Network, objective: Objective, held_out: Samples, metrics: Metrics) -> RoutedGap:
    """Loss and block outputs at each of `metrics.routed_rates` on `metrics.routed_blocks`.

    Images, noise and times are those of the dense validation loss and of the layer similarity; an image's mask is the
    same at all times, and a higher rate takes more of the same tokens.
    """
    times = metrics.similarity_times or objective.similarity_times
    blocks = metrics.routed_blocks
    figures = []
    for rate in metrics.routed_rates:
        routes = [Route(block.start, block.end, rate) for block in blocks]
        losses = _losses(network, objective, held_out, metrics, routes)
        figures.append(
            RoutedFigures(
                rate=rate,
                validation_loss=sum(losses.values()) / len(losses),
                validation_loss_per_time=losses,
                cosine=_cosines(network, objective, held_out, metrics, routes, times).tolist(),
            )
        )
    return RoutedGap(
        blocks=",".join(f"{block.start}:{block.end}" for block in blocks),
        selector=network.method.selector,
        rates=figures,
        times=list(times),
        num_samples=metrics.validation_samples,
        cosine_samples=metrics.similarity_samples,
    )


def _losses(
    network: Network, objective: Objective, held_out: Samples, metrics: Metrics, routes: Sequence[Route]
) -> dict[str, float]:
    totals = dict.fromkeys(objective.validation_times, 0.0)
    for first in range(0, metrics.validation_samples, metrics.batch):
        count = min(metrics.batch, metrics.validation_samples - first)
        x, y, noise = held_out_batch(network, held_out, first, count)
        routed = partial(_routed, network, y=y, routes=routes, ids=_masks(network, routes, first, x))
        for time in totals:
            t = torch.full((count,), time, device=x.device)
            totals[time] += objective.losses(routed, x, noise, t).double().sum().item()
    return {f"{time:g}": total / metrics.validation_samples for time, total in totals.items()}


def _cosines(
    network: Network,
    objective: Objective,
    held_out: Samples,
    metrics: Metrics,
    routes: Sequence[Route],
    times: Sequence[float],
) -> Tensor:
    """Mean cosine (L,) of a block's routed to its dense output; inside a route over the tokens kept."""
    total, images = torch.zeros(network.num_blocks, dtype=torch.float64), metrics.similarity_samples
    size = max(1, TOKENS_AT_A_TIME // network.spec.num_tokens)
    for first in range(0, images, size):
        x, y, noise = held_out_batch(network, held_out, first, min(size, images - first))
        ids = _masks(network, routes, first, x)
        for time in times:
            t = torch.full((len(x),), time, device=x.device)
            x_t = objective.corrupt(x, noise, t)
            dense = block_outputs(network, objective, x_t, t, y)
            agreement = _Agreement(dense, _kept(network, routes, ids))
            routed = partial(_routed, network, y=y, routes=routes, ids=ids, on_block=agreement)
            objective.velocity(routed, x_t, t)
            total += torch.stack(agreement.cosines) / (len(times) * images)
    return total


def _kept(network: Network, routes: Sequence[Route], ids: Sequence[Tensor]) -> dict[int, Tensor]:
    """The positions (B, P + K) that a route's blocks process, by block."""
    prefix = network.backbone.family.num_prefix(network.spec)
    return {
        block: with_prefix(kept, prefix)
        for route, kept in zip(routes, ids, strict=True)
        for block in range(int(route.start), int(route.end) + 1)
    }


@dataclass
class _Agreement:
    """Looks on at the blocks of a routed pass: how alike their outputs are to the dense ones (L, B, P + N, D)."""

    dense: Tensor
    kept: dict[int, Tensor]
    cosines: list[Tensor] = field(default_factory=list)  # of each block: mean over tokens, sum over images

    def __call__(self, block: int, state: TokenState) -> None:
        routed, dense = state.stream(), self.dense[block]
        if block in self.kept:
            dense = gather_tokens(dense, self.kept[block])
            routed = routed if state.positions is not None else gather_tokens(routed, self.kept[block])
        self.cosines.append(cosine_similarity(routed.double(), dense.double(), dim=2).mean(1).sum().cpu())


def _routed(
    network: Network,
    x: Tensor,
    t: Tensor,
    *,
    y: Tensor | None,
    routes: Sequence[Route],
    ids: Sequence[Tensor],
    on_block: OnBlock | None = None,
) -> Tensor:
    return network.backbone(x, t, y, routes=routes, selector=network.method.selector, ids=ids, on_block=on_block)


def _masks(network: Network, routes: Sequence[Route], first: int, x: Tensor) -> list[Tensor]:
    """Kept ids (B, K) of each route for the held-out images `first` .., the same for every cell and seed."""
    selector, rows = network.method.selector, Rows(0, first, len(x))
    return [
        draw_kept(f"held-out route {route.start}:{route.end} {selector}", rows, route, selector, network.spec, x.device)
        for route in routes
    ]
