"""A method: how a training step walks the blocks, what extra parameters it owns, what it adds to the loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from tread_bench import draws
from tread_bench.backbone import Backbone
from tread_bench.ops.selecting import select
from tread_bench.routes import Route


@dataclass(frozen=True, slots=True)
class Rows:
    """Which samples of a seed's endless sequence a batch holds: what every draw is a function of."""

    seed: int
    first: int
    count: int


@dataclass(frozen=True, slots=True)
class Prediction:
    """A method's output (B, C, H, W) and what it adds to the training loss."""

    output: Tensor
    auxiliary_loss: Tensor | None = None


class Method(nn.Module):
    """Walks `backbone` in a training step. Extra parameters, where a method has some, are its own submodules."""

    def __init__(self, backbone: Backbone, routes: Sequence[Route], selector: str) -> None:
        super().__init__()
        self.routes = backbone.family.resolve(backbone.spec, routes, selector)
        self.selector = selector

    def predict(self, backbone: Backbone, x: Tensor, t: Tensor, y: Tensor | None, rows: Rows) -> Prediction:
        """The training-time prediction for the batch `rows`."""
        raise NotImplementedError


def draw_ids(
    backbone: Backbone, routes: Sequence[Route], selector: str, rows: Rows, device: torch.device
) -> list[Tensor]:
    """Kept ids (B, K) of each route, drawn by route, rate and sample index: cells sharing a route share masks."""
    spec = backbone.spec
    kept = []
    for route in routes:
        scores = draws.uniform(rows.seed, f"route {route} {selector}", rows.first, rows.count, (spec.num_tokens,))
        kept.append(select(selector, torch.from_numpy(scores), spec.grid, route.kept(spec.num_tokens)).to(device))
    return kept
