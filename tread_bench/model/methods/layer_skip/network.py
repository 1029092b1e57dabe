"""A control, not from a paper: samples skip a route's blocks as a whole.

This is not stochastic depth (Huang et al., ECCV 2016), which draws for every block and scales by the survival
probability.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from tread_bench.core.numbers import draws
from tread_bench.model.backbone import Backbone, OnBlock, TokenState
from tread_bench.model.methods.base import BatchRange, Method, run_range, walk
from tread_bench.model.prediction import Prediction


class LayerSkip(Method):
    """All tokens of a sample skip a route's blocks, with the rate as probability. Evaluated dense.

    On average a block processes as many tokens as under a route; `on_block` is not called after blocks that some
    samples skip.
    """

    draws_masks = False

    def train_forward(
        self, backbone: Backbone, start: TokenState, batch_range: BatchRange, on_block: OnBlock | None = None
    ) -> Prediction:
        passing = self._draw(batch_range)
        routes = {number: self.routes[number] for number in passing}

        def inside(number: int, state: TokenState) -> TokenState:
            chosen = passing[number].to(start.device)
            if not len(chosen):
                return state
            processed = run_range(backbone, _only(state, chosen), routes[number].blocks)
            return _put_back(state, chosen, processed)

        state = walk(backbone, start, routes, inside, on_block)
        return Prediction(backbone.finish(state))

    def _draw(self, batch_range: BatchRange) -> Mapping[int, Tensor]:
        """The samples that pass each route, by route number, for routes that a sample skips."""
        found = {}
        for number, route in enumerate(self.routes):
            drawn = draws.uniform(batch_range.seed, f"layer skip {route}", batch_range.first, batch_range.count)
            passes = torch.from_numpy(drawn >= route.rate * batch_range.routing)
            if not passes.all():
                found[number] = passes.nonzero().flatten()
        return found


def _only(state: TokenState, chosen: Tensor) -> TokenState:
    """The chosen samples only; skips saved before are left out."""
    part = {name: stream[chosen] for name, stream in state.streams.items()}
    c = None if state.c is None else state.c[chosen]
    context = None if state.context is None else state.context[chosen]
    conditioning = tuple(None if one is None else one[chosen] for one in state.conditioning)
    drawn = None if state.drop_draws is None else state.drop_draws[chosen]
    alone = replace(state, streams=part, c=c, context=context, conditioning=conditioning, drop_draws=drawn)
    return replace(alone, skips=(), cache={})


def _put_back(state: TokenState, chosen: Tensor, part: TokenState) -> TokenState:
    """The whole batch, with new values for the chosen samples."""
    whole = {}
    for name, stream in state.streams.items():
        whole[name] = stream.index_copy(0, chosen, part.streams[name].to(stream.dtype))
    return state.with_streams(**whole)
