"""A backbone together with its method: what is trained, averaged and judged."""

from __future__ import annotations

from torch import Tensor, nn

from tread_bench.backbone import Backbone, OnBlock
from tread_bench.methods.base import Method, Prediction, Rows
from tread_bench.registry import BackboneSpec


class Network(nn.Module):
    """A backbone as its method runs it: in a training step, and when it is judged."""

    def __init__(self, backbone: Backbone, method: Method) -> None:
        super().__init__()
        self.backbone, self.method = backbone, method

    @property
    def spec(self) -> BackboneSpec:
        return self.backbone.spec

    @property
    def num_blocks(self) -> int:
        return self.backbone.num_blocks

    def train_forward(self, x: Tensor, t: Tensor, y: Tensor | None, rows: Rows) -> Prediction:
        """The prediction of a training step, and what the method adds to its loss."""
        return self.method.predict(self.backbone, x, t, y, rows)

    def forward(self, x: Tensor, t: Tensor, y: Tensor | None = None, *, on_block: OnBlock | None = None) -> Tensor:
        """The prediction (B, C, H, W) that the network is judged by: all tokens, as the method samples."""
        return self.method.judge(self.backbone, x, t, y, on_block)
