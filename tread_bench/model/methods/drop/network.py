"""Token dropping: the cost of tokens that do not return after a route; a plain form of MaskDiT and SPRINT."""

from __future__ import annotations

from tread_bench.core.config.suite import Cell
from tread_bench.model.backbone import Backbone, OnBlock, TokenState, leave
from tread_bench.model.methods.base import BatchRange, Method, Prediction, first_state, run_range, walk
from tread_bench.model.methods.masking import MaskToken


class Drop(Method):
    """Tokens leave before a route's start; after its end a mask token takes their place. Evaluated dense."""

    def __init__(self, cell: Cell, backbone: Backbone) -> None:
        super().__init__(cell, backbone)
        self.mask_token = MaskToken(first_state(backbone).stream().shape[2])

    def train_forward(
        self, backbone: Backbone, start: TokenState, batch_range: BatchRange, on_block: OnBlock | None = None
    ) -> Prediction:
        kept = self.draw(backbone, batch_range, start.device)
        routes = {number: self.routes[number] for number in kept}

        def inside(number: int, state: TokenState) -> TokenState:
            state = leave(state, kept[number])
            state = run_range(backbone, state, routes[number].blocks, on_block)
            return self.mask_token.fill(state)

        state = walk(backbone, start, routes, inside, on_block)
        return Prediction(backbone.finish(state), kept)
