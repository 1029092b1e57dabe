"""TREAD (Krause et al., ICCV 2025, section 3): routed tokens bypass blocks; no extra parameters, no extra loss."""

from __future__ import annotations

from torch import Tensor

from tread_bench.backbone import Backbone
from tread_bench.methods.base import Method, Prediction, Rows, draw_ids


class Tread(Method):
    """Tokens leave at each route's start and come back with their value after its end."""

    def predict(self, backbone: Backbone, x: Tensor, t: Tensor, y: Tensor | None, rows: Rows) -> Prediction:
        ids = draw_ids(backbone, self.routes, self.selector, rows, x.device)
        return Prediction(backbone(x, t, y, routes=self.routes, selector=self.selector, ids=ids))
