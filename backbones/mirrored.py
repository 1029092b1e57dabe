"""Blocks with mirrored long skips, which U-ViT, DiS and DRWKV share."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from tread_bench.model.backbone import Backbone, TokenState


class MirroredBackbone(Backbone):
    """The first half of the blocks push a long skip each, one block is in the middle, and the second half pop one."""

    saved_stream = "x"  # which a long skip holds

    def set_blocks(self, blocks: Sequence[nn.Module]) -> None:
        """Register the blocks, an odd number of them, under the names of the releases."""
        half = len(blocks) // 2
        self.in_blocks = nn.ModuleList(blocks[:half])
        self.mid_block = blocks[half]
        self.out_blocks = nn.ModuleList(blocks[half + 1 :])

    def advance(self, layer: nn.Module, block: int, state: TokenState, skip: Tensor | None = None) -> TokenState:
        """Run one block's layer on the tokens present, with the long skip that ends there."""
        raise NotImplementedError

    def run_block(self, block: int, state: TokenState) -> TokenState:
        half = len(self.in_blocks)
        if block < half:
            return self.advance(self.in_blocks[block], block, state).push_skip(self.saved_stream)
        if block == half:
            return self.advance(self.mid_block, block, state)
        skip, state = state.pop_skip()
        return self.advance(self.out_blocks[block - half - 1], block, state, skip)
