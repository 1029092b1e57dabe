"""Dense training, the baseline of all comparisons: every token passes every block."""

from __future__ import annotations

from tread_bench.model.backbone import Backbone, OnBlock, TokenState
from tread_bench.model.methods.base import BatchRange, Method, Prediction


class Dense(Method):
    """No routing, no extra parameters."""

    def train_forward(
        self, backbone: Backbone, start: TokenState, batch_range: BatchRange, on_block: OnBlock | None = None
    ) -> Prediction:
        return Prediction(self.eval_forward(backbone, start, on_block))
