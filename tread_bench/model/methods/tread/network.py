"""TREAD (Krause et al., ICCV 2025, section 3): routed tokens bypass blocks, without extra parameters or losses."""

from __future__ import annotations

from tread_bench.core.config.suite import Cell
from tread_bench.model.backbone import Backbone, OnBlock, TokenState, run_blocks
from tread_bench.model.methods.base import BatchRange, Method, Prediction
from tread_bench.model.methods.tread.family import TreadOptions


class Tread(Method):
    """Tokens leave at each route's start and return with their value after its end."""

    def __init__(self, cell: Cell, backbone: Backbone) -> None:
        super().__init__(cell, backbone)
        assert isinstance(cell.method, TreadOptions)
        self.detach = cell.method.detach
        self.float32_after_route = cell.method.float32_after_route

    def train_forward(
        self, backbone: Backbone, start: TokenState, batch_range: BatchRange, on_block: OnBlock | None = None
    ) -> Prediction:
        kept = self.draw(backbone, batch_range, start.device)
        routes = [self.routes[number] for number in kept]
        ids = list(kept.values())
        state = run_blocks(backbone, start, routes, ids, on_block, self.detach, self.float32_after_route)
        return Prediction(backbone.finish(state), kept)
