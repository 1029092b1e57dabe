"""What a training step predicts: read by the objective, by the method and by auxiliary losses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

from tread_bench.model.backbone import TokenState


@dataclass(frozen=True, slots=True)
class Prediction:
    """A method's output (B, C, H, W), and the rest that the loss of a training step needs."""

    output: Tensor
    kept: Mapping[int, Tensor] = field(default_factory=dict)  # ids (B, K) by number of the route on which tokens left
    weight: Tensor | None = None  # (B, 1, H, W), weight of each pixel's error in the loss; None: equal weights
    second: Tensor | None = None  # (B, C, H, W), output of another pass, whose loss is added; None: there is none
    states: Mapping[int, TokenState] = field(default_factory=dict)  # tokens after the blocks that auxiliary losses read
