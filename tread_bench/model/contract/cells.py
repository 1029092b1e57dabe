"""What the checks try methods, losses and guidance rules in: a cell on a small backbone for digits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from tread_bench.core.config.choices import BackboneChoice
from tread_bench.core.config.suite import Cell
from tread_bench.core.config.training import Training
from tread_bench.core.describe.methods import MethodFamily
from tread_bench.core.describe.plugins import named
from tread_bench.core.describe.routes import RoutesLike, as_routes
from tread_bench.core.describe.selectors import DEFAULT_SELECTOR
from tread_bench.model.backbone import Backbone, build_backbone, draw_weights
from tread_bench.model.methods.base import BatchRange, Method
from tread_bench.model.network import Network
from tread_bench.model.prediction import Prediction

SMALL = {"name": "DiT", "depth": 5, "hidden": 16, "heads": 2, "patch": 2}
BATCH = 6
TOLERANCE = 1e-5  # relative to the largest value, if the order of a float32 sum may differ


class CellSubject:
    """A cell as a suite would resolve it, with a batch to try it on.

    Args:
        options: options of the method.
        routes: of the cell; a method that takes none gets none.
        backbone: name and sizes of the backbone; with `num_classes: 0` and `context_tokens`, it is given random text.

    Raises:
        ValueError: the options are not valid, or a route does not fit the backbone.
    """

    def __init__(
        self, method: MethodFamily, options: Mapping[str, Any], routes: RoutesLike, backbone: Mapping[str, Any]
    ) -> None:
        # The cell.
        choice = BackboneChoice.model_validate(backbone)
        cell = Cell(backbone=choice, training=Training(iterations=8))
        self.method = method
        self.backbone_family = choice.family()
        self.spec = choice.spec(cell.data)
        taken = as_routes(routes) if method.takes_routes else ()
        resolved = self.backbone_family.resolve(self.spec, taken, DEFAULT_SELECTOR)
        self.cell = cell.model_copy(update={"method": method.options(**options), "routes": resolved})

        # The batch.
        self.generator = torch.Generator().manual_seed(0)
        shape = (BATCH, self.spec.channels, self.spec.image_size, self.spec.image_size)
        self.x = torch.randn(shape, generator=self.generator)
        self.t = torch.rand(BATCH, generator=self.generator)
        self.y = torch.arange(BATCH) if self.spec.num_classes else None
        self.empty_text = None
        if self.spec.context_shape is not None:
            self.y = torch.randn(BATCH, *self.spec.context_shape, generator=self.generator)
            self.empty_text = torch.zeros(self.spec.context_shape)

    def build(self, cell: Cell, seed: int = 0) -> tuple[Backbone, Method]:
        """Return the backbone and the method of a cell with their initial weights."""
        backbone = build_backbone(self.backbone_family, self.spec, {"attention": "math"}, seed, cell.objective)
        method: Method = named(self.method.builder)(cell, backbone)
        draw_weights(method, seed, method.init_module, "method.")
        return backbone, method

    def train_forward(self, network: Network, x: Tensor, first: int, count: int, routing: float = 1.0) -> Prediction:
        """Return a training step's prediction for some samples of the batch, none of which loses a path."""
        part = slice(first, first + count)
        y = None if self.y is None else self.y[part]
        batch_range = BatchRange(seed=0, first=first, count=count, routing=routing, path_drop=False)
        return network.train_forward(x[part], self.t[part], y, batch_range)


@torch.no_grad()
def close(found: Tensor, expected: Tensor, tolerance: float = TOLERANCE) -> bool:
    return bool((found - expected).abs().max() <= tolerance * max(1.0, float(expected.abs().max())))
