"""SPRINT (Park et al., arXiv 2510.21986, section 3): a sparse deep path fused with a dense shallow one.

h = linear([g, f]): f are all tokens before the route, g those behind it, with mask tokens where tokens were dropped; h
goes on through the blocks after the route. A share of the training samples loses the whole deep path (path-drop), so
that the network can also be asked without it; as in the released fine-tuning, the dense part has it too. Judged with
all tokens on both paths.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tread_bench.core import draws
from tread_bench.core.config import Cell, SprintMethod
from tread_bench.model.backbone import Backbone, OnBlock, TokenState, leave
from tread_bench.model.methods.base import Method, Prediction, Rows, blocks_of, first_state, run_range
from tread_bench.model.methods.masking import MaskToken


class Sprint(Method):
    """One route, with dense blocks before and after it."""

    def __init__(self, cell: Cell, backbone: Backbone) -> None:
        super().__init__(cell, backbone)
        assert isinstance(cell.method, SprintMethod)
        self.path_drop = cell.method.path_drop
        width = first_state(backbone).stream().shape[2]
        self.mask_token = MaskToken(width)
        self.fuse = nn.Linear(2 * width, width)

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
        share = self.path_drop if rows.path_drop else 0.0
        drop_B = draws.uniform(rows.seed, "path drop", rows.first, rows.count) < share
        shallow = self._shallow(backbone, x, t, y, on_block)
        deep = self._deep(backbone, shallow, kept.get(0), on_block)
        without_B = torch.from_numpy(drop_B).to(x.device).view(-1, 1, 1)
        tokens = torch.where(without_B, self.mask_token.like(deep.stream()), deep.stream())
        return Prediction(self._finish(backbone, shallow, deep, tokens, on_block), kept)

    def judge(
        self, backbone: Backbone, x: Tensor, t: Tensor, y: Tensor | None, on_block: OnBlock | None = None
    ) -> Tensor:
        shallow = self._shallow(backbone, x, t, y, on_block)
        deep = self._deep(backbone, shallow, None, on_block)
        return self._finish(backbone, shallow, deep, deep.stream(), on_block)

    def judge_shallow(self, backbone: Backbone, x: Tensor, t: Tensor, y: Tensor | None) -> Tensor:
        shallow = self._shallow(backbone, x, t, y, None)
        return self._finish(backbone, shallow, shallow, self.mask_token.like(shallow.stream()), None)

    def _shallow(
        self, backbone: Backbone, x: Tensor, t: Tensor, y: Tensor | None, on_block: OnBlock | None
    ) -> TokenState:
        return run_range(backbone, backbone.start(x, t, y), range(blocks_of(self.routes[0]).start), on_block)

    def _deep(
        self, backbone: Backbone, shallow: TokenState, ids: Tensor | None, on_block: OnBlock | None
    ) -> TokenState:
        """The route's blocks over the kept tokens, filled up; over all where `ids` is None."""
        blocks = blocks_of(self.routes[0])
        if ids is None:
            return run_range(backbone, shallow, blocks, on_block)
        return self.mask_token.fill(run_range(backbone, leave(shallow, ids), blocks, on_block))

    def _finish(
        self, backbone: Backbone, shallow: TokenState, deep: TokenState, tokens: Tensor, on_block: OnBlock | None
    ) -> Tensor:
        """The fused tokens through the last blocks."""
        fused = deep.with_stream(self.fuse(torch.cat([tokens, shallow.stream()], dim=2)))
        last = range(blocks_of(self.routes[0]).stop, backbone.num_blocks)
        return backbone.finish(run_range(backbone, fused, last, on_block))
