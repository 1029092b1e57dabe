"""The identity in the slot of a mixer, as in IdentityFormer (Yu et al., arXiv 2210.13452).

It shows what a network reaches by the rest of its blocks alone: in DiG by convolutions and MLPs.
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from tread_bench.backbones.mixers.base import Mixer
from tread_bench.core.describe.mixers import MixerSize


class Identity(Mixer):
    """Has no parameters."""

    def __init__(self, size: MixerSize, kernels: Mapping[str, str]) -> None:
        super().__init__()

    def forward(self, x_BLD: Tensor, steps_BL: Tensor | None = None) -> Tensor:
        return x_BLD
