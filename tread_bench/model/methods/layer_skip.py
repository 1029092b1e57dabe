"""A control of ours: samples skip a route's blocks as a whole.

Not stochastic depth (Huang et al., ECCV 2016), which draws for every block and scales by the probability to survive.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from tread_bench.core import draws
from tread_bench.model.backbone import Backbone, OnBlock, TokenState
from tread_bench.model.methods.base import Method, Prediction, Rows, blocks_of, run_range, walk


class LayerSkip(Method):
    """With the route's rate as probability all tokens of a sample skip its blocks. Judged dense.

    On average as many tokens pass a block as under a route; `on_block` does not see blocks that some samples skip.
    """

    draws_masks = False

    def predict(
        self,
        backbone: Backbone,
        x: Tensor,
        t: Tensor,
        y: Tensor | None,
        rows: Rows,
        on_block: OnBlock | None = None,
    ) -> Prediction:
        passing = self._draw(rows)

        def inside(number: int, state: TokenState) -> TokenState:
            chosen, blocks = passing[number].to(x.device), blocks_of(self.routes[number])
            if not len(chosen):
                return state
            return _put_back(state, chosen, run_range(backbone, _only(state, chosen), blocks))

        routes = {number: self.routes[number] for number in passing}
        return Prediction(backbone.finish(walk(backbone, backbone.start(x, t, y), routes, inside, on_block)))

    def _draw(self, rows: Rows) -> Mapping[int, Tensor]:
        """By number of the route the samples that pass it, of the routes that one skips."""
        found = {}
        for number, route in enumerate(self.routes):
            drawn = draws.uniform(rows.seed, f"layer skip {route}", rows.first, rows.count)
            passes = torch.from_numpy(drawn >= route.rate * rows.routing)
            if not passes.all():
                found[number] = passes.nonzero().flatten()
        return found


def _only(state: TokenState, chosen: Tensor) -> TokenState:
    """These samples alone; what blocks saved before stays outside."""
    part = {name: stream[chosen] for name, stream in state.streams.items()}
    c, context = (None if one is None else one[chosen] for one in (state.c, state.context))
    return replace(state, streams=part, c=c, context=context, skips=(), cache={})


def _put_back(state: TokenState, chosen: Tensor, part: TokenState) -> TokenState:
    """The whole batch, in which the chosen samples have new values."""
    return state.with_streams(
        **{
            name: stream.index_copy(0, chosen, part.streams[name].to(stream.dtype))
            for name, stream in state.streams.items()
        }
    )
