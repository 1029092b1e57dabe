"""Every token passes every block: what all else is compared with."""

from __future__ import annotations

from torch import Tensor

from tread_bench.model.backbone import Backbone, OnBlock
from tread_bench.model.methods.base import Method, Prediction, Rows


class Dense(Method):
    """No routing, no extra parameters."""

    def predict(
        self,
        backbone: Backbone,
        x: Tensor,
        t: Tensor,
        y: Tensor | None,
        rows: Rows,
        on_block: OnBlock | None = None,
    ) -> Prediction:
        return Prediction(backbone(x, t, y, on_block=on_block))
