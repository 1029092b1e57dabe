"""TREAD with one route whose place is drawn for every step, all of a batch together. Not from a paper."""

from __future__ import annotations

from tread_bench.core.config.suite import Cell
from tread_bench.core.numbers import draws
from tread_bench.model.backbone import Backbone, OnBlock, TokenState, run_blocks
from tread_bench.model.methods.base import BatchRange, Method
from tread_bench.model.prediction import Prediction


class TreadDrawnPlace(Method):
    """Tokens bypass the blocks of the place that is drawn for the step; masks do not depend on it. Evaluated dense."""

    def __init__(self, cell: Cell, backbone: Backbone) -> None:
        super().__init__(cell, backbone)
        self.batch = cell.training.batch
        family, spec = backbone.family, backbone.spec
        self.places = [
            route
            for routes in cell.method.alternatives(cell.routes, spec.num_tokens)
            for route in family.resolve(spec, routes, cell.selector)
        ]

    def train_forward(
        self, backbone: Backbone, start: TokenState, batch_range: BatchRange, on_block: OnBlock | None = None
    ) -> Prediction:
        ids = list(self.draw(backbone, batch_range, start.device).values())
        place = self.places[self.drawn_place(batch_range)]
        return Prediction(backbone.finish(run_blocks(backbone, start, [place] * len(ids), ids, on_block)))

    def drawn_place(self, batch_range: BatchRange) -> int:
        """Return the number of the step's place, which all parts of a batch share."""
        step = batch_range.first // self.batch
        return int(draws.integers(batch_range.seed, "place of the route", step, 1, len(self.places))[0])
