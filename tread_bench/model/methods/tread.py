"""TREAD (Krause et al., ICCV 2025, section 3): routed tokens bypass blocks; no extra parameters, no extra loss."""

from __future__ import annotations

from torch import Tensor

from tread_bench.core.config import Cell, TreadMethod
from tread_bench.model.backbone import Backbone, OnBlock, run_blocks
from tread_bench.model.methods.base import Method, Prediction, Rows


class Tread(Method):
    """Tokens leave at each route's start and come back with their value after its end."""

    def __init__(self, cell: Cell, backbone: Backbone) -> None:
        super().__init__(cell, backbone)
        assert isinstance(cell.method, TreadMethod)
        self.detach, self.float32_after_route = cell.method.detach, cell.method.float32_after_route

    def predict(
        self,
        backbone: Backbone,
        x: Tensor,
        t: Tensor,
        y: Tensor | None,
        rows: Rows,
        on_block: OnBlock | None = None,
    ) -> Prediction:
        kept = self.draw(backbone, rows, x.device)
        routes, ids = [self.routes[number] for number in kept], list(kept.values())
        start = backbone.start(x, t, y)
        state = run_blocks(backbone, start, routes, ids, on_block, self.detach, self.float32_after_route)
        return Prediction(backbone.finish(state), kept)
