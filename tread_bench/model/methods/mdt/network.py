"""MDT (Gao et al., "Masked Diffusion Transformer is a Strong Image Synthesizer", ICCV 2023, arXiv 2303.14389, v2).

Every step has two passes, and the sum of their losses. One is over all tokens. In the other, tokens are masked from the
first block on; after the route a side-interpolater, one adaLN-Zero block over all tokens, predicts the masked ones from
mask tokens and the others, which it leaves as they are. Learned positions come before it, and at its place in the pass
over all tokens. The blocks after the route decode all tokens. Evaluation is the pass over all tokens.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tread_bench.core.config.suite import Cell
from tread_bench.model.backbone import Backbone, OnBlock, TokenState, checkpointed, leave
from tread_bench.model.methods.adaln import AdaLNBlock
from tread_bench.model.methods.base import BatchRange, Method, Prediction, run_range, widths
from tread_bench.model.methods.masking import MaskToken
from tread_bench.model.methods.mdt.family import MdtOptions
from tread_bench.model.ops.patching import sincos_positions


class Mdt(Method):
    """MDT with one route from the first block to before the last."""

    starts_at_zero = ("modulation",)

    def __init__(self, cell: Cell, backbone: Backbone) -> None:
        super().__init__(cell, backbone)
        assert isinstance(cell.method, MdtOptions)
        width, condition = widths(backbone)
        self.grid = backbone.spec.grid
        self.mask_token = MaskToken(width)
        self.positions = nn.Parameter(torch.empty(backbone.spec.num_tokens, width))
        self.interpolater = AdaLNBlock(width, cell.method.interpolater_heads, condition)

    def init_module(self, name: str, module: nn.Module) -> None:
        """Xavier linears, zeros for modulation, and positions from sines and cosines, as released."""
        if module is self:
            self.positions.copy_(sincos_positions(self.positions.shape[1], self.grid))
        else:
            super().init_module(name, module)

    def train_forward(
        self, backbone: Backbone, start: TokenState, batch_range: BatchRange, on_block: OnBlock | None = None
    ) -> Prediction:
        kept = self.draw(backbone, batch_range, start.device)
        whole = self.eval_forward(backbone, start, None if kept else on_block)
        if not kept:
            return Prediction(whole)

        # The pass with masked tokens.
        blocks = self.routes[0].blocks
        state = run_range(backbone, leave(start, kept[0]), blocks, on_block)

        # All tokens with their positions, of which the side-interpolater predicts those that were masked.
        state = self._placed(self.mask_token.fill(state))
        before = state.stream()
        predicted = checkpointed(backbone, self.interpolater, before, state.c)
        is_masked = torch.ones(before.shape[:2], dtype=torch.bool, device=before.device)
        is_masked[:, : state.num_prefix] = False
        is_masked = is_masked.scatter(1, kept[0] + state.num_prefix, False).unsqueeze(2)
        state = state.with_stream(torch.where(is_masked, predicted, before))
        state = run_range(backbone, state, range(blocks.stop, backbone.num_blocks), on_block)
        return Prediction(backbone.finish(state), kept, second=whole)

    def eval_forward(self, backbone: Backbone, start: TokenState, on_block: OnBlock | None = None) -> Tensor:
        blocks = self.routes[0].blocks
        state = self._placed(run_range(backbone, start, blocks, on_block))
        return backbone.finish(run_range(backbone, state, range(blocks.stop, backbone.num_blocks), on_block))

    def _placed(self, state: TokenState) -> TokenState:
        """The same tokens with learned positions added to those of the image."""
        stream = state.stream()
        prefix, image = stream.tensor_split([state.num_prefix], dim=1)
        return state.with_stream(torch.cat([prefix, image + self.positions.to(stream.dtype)], dim=1))
