"""A control, not from a paper: samples skip a route's blocks as a whole.

This is not stochastic depth (Huang et al., ECCV 2016), which draws for every block and scales by the survival
probability.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from tread_bench.core.config.suite import Cell
from tread_bench.core.numbers import draws
from tread_bench.model.backbone import Backbone, OnBlock, TokenState
from tread_bench.model.methods.base import BatchRange, Method, Prediction, run_range, walk


class LayerSkip(Method):
    """All tokens of a sample skip a route's blocks, with the rate as probability. Evaluated dense.

    On average a block processes as many tokens as under a route; `on_block` is not called after blocks that some
    samples skip.
    """

    def __init__(self, cell: Cell, backbone: Backbone) -> None:
        super().__init__(cell, backbone)
        self.streams = [f"layer skip {route}" for route in self.routes]

    def train_forward(
        self, backbone: Backbone, start: TokenState, batch_range: BatchRange, on_block: OnBlock | None = None
    ) -> Prediction:
        # The samples that pass each route, for routes that a sample skips.
        batch_range = batch_range if batch_range.counts else self.counted(batch_range)
        passing = {}
        for number, stream in enumerate(self.streams):
            if batch_range.counts[stream] < batch_range.count:
                passes = batch_range.drawn[stream].to(start.device)
                passing[number] = passes.argsort(descending=True, stable=True)[: batch_range.counts[stream]]
        routes = {number: self.routes[number] for number in passing}

        # All blocks, those of a route on these samples alone.
        def inside(number: int, state: TokenState) -> TokenState:
            chosen = passing[number]
            if not len(chosen):
                return state
            part = run_range(backbone, state.only(chosen), routes[number].blocks)
            whole = {}
            for name, stream in state.streams.items():
                whole[name] = stream.index_copy(0, chosen, part.streams[name].to(stream.dtype))
            return state.with_streams(**whole)

        state = walk(backbone, start, routes, inside, on_block)
        return Prediction(backbone.finish(state))

    def with_masks(self, backbone: Backbone, batch_range: BatchRange) -> BatchRange:
        return replace(self.counted(batch_range), counts={})

    def counted(self, batch_range: BatchRange) -> BatchRange:
        # Which samples (B,) pass each route, on the host, which waits for no device.
        counts, drawn = {}, {}
        for route, stream in zip(self.routes, self.streams, strict=True):
            uniform = draws.uniform(batch_range.seed, stream, batch_range.first, batch_range.count)
            passes = uniform >= route.rate * batch_range.routing
            counts[stream] = int(passes.sum())
            drawn[stream] = torch.from_numpy(passes)
        return replace(batch_range, drawn=batch_range.drawn or drawn, counts=counts)
