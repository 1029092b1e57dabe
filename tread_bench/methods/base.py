"""A method: how a training step walks the blocks, what extra parameters it owns, what it adds to the loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from tread_bench import draws
from tread_bench.backbone import Backbone, OnBlock
from tread_bench.config import Cell
from tread_bench.ops.selecting import select
from tread_bench.routes import Route


@dataclass(frozen=True, slots=True)
class Rows:
    """Which samples of a seed's endless sequence a batch holds, what every draw is a function of, and how it is routed.

    `routing` is the share of each route's rate that applies at this step: 1 as configured, 0 dense.
    """

    seed: int
    first: int
    count: int
    routing: float = 1.0


@dataclass(frozen=True, slots=True)
class Prediction:
    """A method's output (B, C, H, W) and what it adds to the training loss."""

    output: Tensor
    auxiliary_loss: Tensor | None = None


class Method(nn.Module):
    """Walks a backbone in a training step and when it is judged.

    Extra parameters, where a method has some, are its own submodules; the backbone is not among them.
    """

    def __init__(self, cell: Cell, backbone: Backbone) -> None:
        super().__init__()
        self.routes = backbone.family.resolve(backbone.spec, cell.routes, cell.selector)
        self.selector = cell.selector

    def predict(self, backbone: Backbone, x: Tensor, t: Tensor, y: Tensor | None, rows: Rows) -> Prediction:
        """The training-time prediction for the batch `rows`."""
        raise NotImplementedError

    def judge(
        self, backbone: Backbone, x: Tensor, t: Tensor, y: Tensor | None, on_block: OnBlock | None = None
    ) -> Tensor:
        """The prediction (B, C, H, W) that samples and validation losses are made with: dense."""
        return backbone(x, t, y, on_block=on_block)


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
