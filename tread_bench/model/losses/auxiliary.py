"""An auxiliary loss: what is added to the training loss, whatever the method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor, nn

if TYPE_CHECKING:
    from tread_bench.model.methods.base import Prediction


@dataclass(frozen=True, slots=True)
class Images:
    """What a prediction may be compared with, each (B, C, H, W)."""

    clean: Tensor
    noised: Tensor
    denoised: Tensor  # the estimate of `clean` that the network's output stands for; gradients flow through it


class Auxiliary(nn.Module):
    """A loss on a prediction. Extra parameters are its own; nothing of it is needed to sample."""

    block: int | None = None  # behind which it looks at the tokens
    file_sha256: str = ""  # of the weights that it reads

    def forward(self, prediction: Prediction, images: Images) -> Tensor:
        """The weighted loss, a scalar."""
        raise NotImplementedError
