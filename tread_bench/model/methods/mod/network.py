"""Mixture-of-Depths (Raposo et al., arXiv 2404.02258, eq. 1): a router per block chooses the tokens that pass it.

x_i <- x_i + r_i (f(X)_i - x_i) for the K tokens with the largest r_i = w . x_i, where X holds only these tokens; the
others stay unchanged.

This is expert choice: K comes from the route's rate, and which tokens pass depends on all tokens of the image, in
training and evaluation alike. Here every block of a route has a router (published: every second block).
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from tread_bench.core.config.suite import Cell
from tread_bench.core.describe.routes import Route
from tread_bench.model.backbone import Backbone, OnBlock, Skip, TokenState, call_block, come_back, leave
from tread_bench.model.methods.base import BatchRange, Method, Prediction, first_state, walk
from tread_bench.model.ops.routing import gather_tokens


class Mod(Method):
    """Mixture-of-Depths on the blocks of routes; prefix and unrouted streams pass every block, with weight 1."""

    draws_masks = False

    def __init__(self, cell: Cell, backbone: Backbone) -> None:
        super().__init__(cell, backbone)
        width = first_state(backbone).stream().shape[2]
        routed = [block for route in self.routes for block in route.blocks]
        self.routers = nn.ModuleDict({str(block): nn.Linear(width, 1, bias=False) for block in routed})

    def train_forward(
        self, backbone: Backbone, start: TokenState, batch_range: BatchRange, on_block: OnBlock | None = None
    ) -> Prediction:
        return Prediction(self._forward(backbone, start, batch_range.routing, on_block))

    def eval_forward(self, backbone: Backbone, start: TokenState, on_block: OnBlock | None = None) -> Tensor:
        return self._forward(backbone, start, 1.0, on_block)

    def _forward(self, backbone: Backbone, start: TokenState, share: float, on_block: OnBlock | None) -> Tensor:
        def inside(number: int, state: TokenState) -> TokenState:
            route = self.routes[number]
            for block in route.blocks:
                state = self._pass(backbone, block, state, route.at_share(share))
                if on_block is not None:
                    on_block(block, state)
            return state

        routes = dict(enumerate(self.routes))
        state = walk(backbone, start, routes, inside, on_block)
        return backbone.finish(state)

    def _pass(self, backbone: Backbone, block: int, state: TokenState, route: Route) -> TokenState:
        """Run one block on the tokens that its router chooses."""
        # Run the block on the K tokens of largest weight.
        weights_BN = self.routers[str(block)](state.stream()[:, state.num_prefix :]).squeeze(2)
        chosen_BK = weights_BN.topk(route.kept(weights_BN.shape[1]), dim=1).indices.sort(dim=1).values
        before = leave(state, chosen_BK)
        after = call_block(backbone, block, before)

        # Scale what the block adds by the weight, or by 1 for prefix tokens.
        prefix_scale = weights_BN.new_ones(len(chosen_BK), state.num_prefix)
        scale = torch.cat([prefix_scale, weights_BN.gather(1, chosen_BK)], dim=1).unsqueeze(2)
        mixed = {name: _scaled(before.streams[name], after.streams[name], scale) for name in after.routed}
        return come_back(_scale_saved(before, after.with_streams(**mixed), scale))


def _scaled(before: Tensor, after: Tensor, scale: Tensor) -> Tensor:
    return before + scale.to(after.dtype) * (after - before)


def _scale_saved(before: TokenState, after: TokenState, scale: Tensor) -> TokenState:
    """Scale the block's output in a long skip that it saved."""
    if len(after.skips) <= len(before.skips):
        return after
    *rest, saved = after.skips
    assert saved.background is not None and saved.positions is not None, "saved inside a route"
    value = _scaled(gather_tokens(saved.background, saved.positions), saved.value, scale)
    return replace(after, skips=(*rest, Skip(value, saved.positions, saved.background)))
