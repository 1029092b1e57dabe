"""A control, not from a paper: samples skip a route's blocks as a whole.

This is not stochastic depth (Huang et al., ECCV 2016), which draws for every block and scales by the survival
probability.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from tread_bench.core.describe.routes import Route
from tread_bench.core.numbers import draws
from tread_bench.model.backbone import Backbone, OnBlock, TokenState
from tread_bench.model.methods.base import BatchRange, Method, run_range, walk
from tread_bench.model.prediction import Prediction


class LayerSkip(Method):
    """All tokens of a sample skip a route's blocks, with the rate as probability. Evaluated dense.

    On average a block processes as many tokens as under a route; `on_block` is not called after blocks that some
    samples skip.
    """

    def train_forward(
        self, backbone: Backbone, start: TokenState, batch_range: BatchRange, on_block: OnBlock | None = None
    ) -> Prediction:
        # The samples that pass each route, for routes that a sample skips; the host knows how many there are.
        passing = {}
        for number, route in enumerate(self.routes):
            drawn = _draw(route, batch_range)
            if not drawn.all():
                ahead = batch_range.drawn.get(_stream(route))
                passes = torch.from_numpy(drawn).to(start.device) if ahead is None else ahead
                passing[number] = passes.argsort(descending=True, stable=True)[: int(drawn.sum())]
        routes = {number: self.routes[number] for number in passing}

        # All blocks, those of a route on these samples alone.
        def inside(number: int, state: TokenState) -> TokenState:
            chosen = passing[number]
            if not len(chosen):
                return state
            processed = run_range(backbone, state.only(chosen), routes[number].blocks)
            return put_back(state, chosen, processed)

        state = walk(backbone, start, routes, inside, on_block)
        return Prediction(backbone.finish(state))

    def with_masks(self, backbone: Backbone, batch_range: BatchRange) -> BatchRange:
        drawn = {_stream(route): torch.from_numpy(_draw(route, batch_range)) for route in self.routes}
        return replace(batch_range, drawn=drawn)


def _stream(route: Route) -> str:
    return f"layer skip {route}"


def _draw(route: Route, batch_range: BatchRange) -> np.ndarray:
    """Which samples (B,) pass the route."""
    drawn = draws.uniform(batch_range.seed, _stream(route), batch_range.first, batch_range.count)
    return np.asarray(drawn >= route.rate * batch_range.routing)


def put_back(state: TokenState, chosen: Tensor, part: TokenState) -> TokenState:
    """Return the whole batch, with the streams of `part` for the chosen samples."""
    whole = {}
    for name, stream in state.streams.items():
        whole[name] = stream.index_copy(0, chosen, part.streams[name].to(stream.dtype))
    return state.with_streams(**whole)
