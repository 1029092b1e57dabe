"""Token dropping: what a route's tokens lose when they do not come back; the plain form of MaskDiT and SPRINT."""

from __future__ import annotations

from torch import Tensor

from tread_bench.core.config import Cell
from tread_bench.model.backbone import Backbone, OnBlock, TokenState, leave
from tread_bench.model.methods.base import Method, Prediction, Rows, blocks_of, first_state, run_range, walk
from tread_bench.model.methods.masking import MaskToken


class Drop(Method):
    """Tokens leave before a route's start; after its end a mask token stands in their place. Judged dense."""

    def __init__(self, cell: Cell, backbone: Backbone) -> None:
        super().__init__(cell, backbone)
        self.mask_token = MaskToken(first_state(backbone).stream().shape[2])

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

        def inside(number: int, state: TokenState) -> TokenState:
            state = leave(state, kept[number])
            return self.mask_token.fill(run_range(backbone, state, blocks_of(self.routes[number]), on_block))

        routes = {number: self.routes[number] for number in kept}
        state = walk(backbone, backbone.start(x, t, y), routes, inside, on_block)
        return Prediction(backbone.finish(state), kept)
