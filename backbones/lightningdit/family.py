"""LightningDiT: sizes and published names, without torch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from tread_bench.backbones.dit.family import DiTSpec
from tread_bench.core.describe.families import Family
from tread_bench.core.describe.selectors import TokenOrder


class LightningDiTSpec(DiTSpec):
    """Sizes of LightningDiT (Yao et al., CVPR 2025), which are those of DiT."""

    attention: Literal["softmax"] = Field("softmax", description="queries and keys are rotated by place")
    learn_sigma: bool = Field(False, description="the last layer computes 2C channels; ddpm reads the second C")

    @model_validator(mode="after")
    def _heads_rotate(self) -> LightningDiTSpec:
        if self.hidden // self.heads % 4:
            raise ValueError(
                f"hidden {self.hidden} over heads {self.heads} must be a multiple of 4: "
                "half of a head's channels turn by row, half by column, in pairs"
            )
        return self

    @property
    def swiglu_hidden(self) -> int:
        """Two thirds of the MLP's width, so that three matrices have as many parameters as two."""
        return int(2 / 3 * int(self.hidden * self.mlp_ratio))


_SIZES = {
    "B": {"depth": 12, "hidden": 768, "heads": 12},
    "L": {"depth": 24, "hidden": 1024, "heads": 16},
    "XL": {"depth": 28, "hidden": 1152, "heads": 16},
    "1p0B": {"depth": 24, "hidden": 1536, "heads": 24},
    "1p6B": {"depth": 28, "hidden": 1792, "heads": 28},
}
_INPUTS = {
    1: {"patch": 1, "image_size": 16, "channels": 32},  # latents of the authors' own autoencoder
    2: {"patch": 2},
}

LIGHTNINGDIT = Family(
    name="LightningDiT",
    spec=LightningDiTSpec,
    published={
        f"LightningDiT-{size}/{p}": {**dims, **shape}
        for size, dims in _SIZES.items()
        for p, shape in _INPUTS.items()
        if (size, p) != ("L", 1)  # not one of the authors' models
    },
    token_order=TokenOrder.SET,
    builder="tread_bench.backbones.lightningdit.network:LightningDiT",
)
