"""Deferred masking (MicroDiT: Sehwag et al., arXiv 2407.15811, section 3): tokens are mixed before some are dropped.

A few adaLN-Zero blocks, the mixer, process all tokens. Then tokens are dropped for all blocks of the backbone, and the
loss is the objective's on the others. Where the mixer has a width of its own, linear layers lead there and back; that
back sees kept tokens alone. Evaluation uses the mixer and all tokens.
"""

from __future__ import annotations

from torch import Tensor, nn

from tread_bench.core.config.suite import Cell
from tread_bench.model.backbone import Backbone, OnBlock, TokenState, checkpointed, come_back, leave
from tread_bench.model.methods.adaln import AdaLNBlock
from tread_bench.model.methods.base import BatchRange, Method, Prediction, run_range, widths
from tread_bench.model.methods.deferred_masking.family import DeferredMaskingOptions
from tread_bench.model.methods.masking import kept_pixels
from tread_bench.model.ops.routing import gather_tokens


class DeferredMasking(Method):
    """A mixer over all tokens, and one route over all blocks."""

    starts_at_zero = ("modulation",)  # so that the mixer's blocks start as the identity

    def __init__(self, cell: Cell, backbone: Backbone) -> None:
        super().__init__(cell, backbone)
        assert isinstance(cell.method, DeferredMaskingOptions)
        config = cell.method
        width, condition = widths(backbone)
        self.patch = backbone.spec.patch
        self.mixer_input = _between(width, config.mixer_width)
        self.mixer = nn.ModuleList(
            AdaLNBlock(config.mixer_width, config.mixer_heads, condition) for _ in range(config.mixer_depth)
        )
        self.mixer_output = _between(config.mixer_width, width)

    def train_forward(
        self, backbone: Backbone, start: TokenState, batch_range: BatchRange, on_block: OnBlock | None = None
    ) -> Prediction:
        kept = self.draw(backbone, batch_range, start.device)
        if not kept:
            return Prediction(self.eval_forward(backbone, start, on_block))

        # All tokens are mixed, and the kept ones pass the backbone.
        mixed = self._mixed(backbone, start)
        state = leave(start, kept[0])
        assert state.positions is not None
        state = state.with_stream(self.mixer_output(gather_tokens(mixed, state.positions)))
        state = run_range(backbone, state, range(backbone.num_blocks), on_block)

        # An image without meaning where tokens were dropped: nothing weighs it there.
        output = backbone.finish(come_back(state))
        return Prediction(output, weight=kept_pixels(kept[0], start.grid, self.patch))

    def eval_forward(self, backbone: Backbone, start: TokenState, on_block: OnBlock | None = None) -> Tensor:
        state = start.with_stream(self.mixer_output(self._mixed(backbone, start)))
        return backbone.finish(run_range(backbone, state, range(backbone.num_blocks), on_block))

    def _mixed(self, backbone: Backbone, start: TokenState) -> Tensor:
        """All tokens after the mixer (B, P + N, W), W being its width."""
        x = self.mixer_input(start.stream())
        for block in self.mixer:
            x = checkpointed(backbone, block, x, start.c)
        return x


def _between(width: int, width_out: int) -> nn.Module:
    """A norm and a linear layer from one width to another; nothing between equal widths."""
    if width == width_out:
        return nn.Identity()
    return nn.Sequential(nn.LayerNorm(width, elementwise_affine=False, eps=1e-6), nn.Linear(width, width_out))
