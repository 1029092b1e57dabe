"""SPRINT (Park et al., arXiv 2510.21986, section 3): a sparse deep path fused with a dense shallow one.

h = linear([g, f]), where f are all tokens before the route and g those after it, with mask tokens in place of dropped
ones; h continues through the blocks after the route, and so do streams that no route takes, from the deep path. A share
of the training samples loses the whole deep path (path-drop), so that the network can also predict without it; as in
the released fine-tuning, this also applies to the dense part of training. Evaluation uses all tokens on both paths.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from tread_bench.core.config.suite import Cell
from tread_bench.model.backbone import Backbone, OnBlock, TokenState, leave
from tread_bench.model.methods.base import BatchRange, Method, Prediction, first_state, run_range
from tread_bench.model.methods.masking import MaskToken
from tread_bench.model.methods.sprint.family import SprintOptions

_DROPPED = "path drop"  # stream of the samples that lose their deep path


class Sprint(Method):
    """SPRINT with one route, and dense blocks before and after it."""

    def __init__(self, cell: Cell, backbone: Backbone) -> None:
        super().__init__(cell, backbone)
        assert isinstance(cell.method, SprintOptions)
        self.path_drop = cell.method.path_drop
        width = first_state(backbone).stream().shape[2]
        self.mask_token = MaskToken(width)
        self.fuse = nn.Linear(2 * width, width)

    def train_forward(
        self, backbone: Backbone, start: TokenState, batch_range: BatchRange, on_block: OnBlock | None = None
    ) -> Prediction:
        # Run both paths: all tokens before the route, the kept ones through its blocks.
        kept = self.draw(backbone, batch_range, start.device)
        shallow = self._shallow(backbone, start, on_block)
        deep = self._deep(backbone, shallow, kept.get(0), on_block)

        # Replace the deep path of a share of the samples.
        dropped_B = batch_range.drawn.get(_DROPPED)
        if dropped_B is None:
            dropped_B = self._draw_dropped(batch_range).to(start.device)
        if not batch_range.path_drop:
            dropped_B = torch.zeros_like(dropped_B)
        dropped = dropped_B.view(-1, 1, 1)
        tokens = torch.where(dropped, self.mask_token.like(deep.stream()), deep.stream())
        unrouted = {name: torch.where(dropped, shallow.streams[name], deep.streams[name]) for name in deep.unrouted}
        return Prediction(self._finish(backbone, shallow, deep.with_streams(**unrouted), tokens, on_block), kept)

    def with_masks(self, backbone: Backbone, batch_range: BatchRange) -> BatchRange:
        ahead = super().with_masks(backbone, batch_range)
        return replace(ahead, drawn={_DROPPED: self._draw_dropped(batch_range)})

    def _draw_dropped(self, batch_range: BatchRange) -> Tensor:
        """Which samples (B,) lose their deep path."""
        return batch_range.uniform(_DROPPED) < self.path_drop

    def eval_forward(self, backbone: Backbone, start: TokenState, on_block: OnBlock | None = None) -> Tensor:
        shallow = self._shallow(backbone, start, on_block)
        deep = self._deep(backbone, shallow, None, on_block)
        return self._finish(backbone, shallow, deep, deep.stream(), on_block)

    def shallow_forward(self, backbone: Backbone, start: TokenState) -> Tensor:
        shallow = self._shallow(backbone, start, None)
        return self._finish(backbone, shallow, shallow, self.mask_token.like(shallow.stream()), None)

    def _shallow(self, backbone: Backbone, start: TokenState, on_block: OnBlock | None) -> TokenState:
        """Run all tokens through the blocks before the route."""
        return run_range(backbone, start, range(self.routes[0].blocks.start), on_block)

    def _deep(
        self, backbone: Backbone, shallow: TokenState, ids: Tensor | None, on_block: OnBlock | None
    ) -> TokenState:
        """Run the route's blocks on the kept tokens and fill the gaps; on all tokens if `ids` is None."""
        blocks = self.routes[0].blocks
        if ids is None:
            return run_range(backbone, shallow, blocks, on_block)
        kept = run_range(backbone, leave(shallow, ids), blocks, on_block)
        return self.mask_token.fill(kept)

    def _finish(
        self, backbone: Backbone, shallow: TokenState, deep: TokenState, tokens: Tensor, on_block: OnBlock | None
    ) -> Tensor:
        """Fuse both paths and run the last blocks."""
        fused = deep.with_stream(self.fuse(torch.cat([tokens, shallow.stream()], dim=2)))
        last = range(self.routes[0].blocks.stop, backbone.num_blocks)
        return backbone.finish(run_range(backbone, fused, last, on_block))
