"""DiT and SiT: sizes and published names, without torch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from tread_bench.core.describe.families import Family, TextSpec
from tread_bench.core.describe.selectors import TokenOrder


class DiTSpec(TextSpec):
    """Sizes of DiT (Peebles and Xie, ICCV 2023) and SiT (Ma et al., ECCV 2024)."""

    depth: int = Field(12, ge=1)
    hidden: int = Field(384, ge=4)
    heads: int = Field(6, ge=1)
    mlp_ratio: float = Field(4.0, gt=0)
    attention: Literal["softmax", "linear"] = Field(
        "softmax", description="linear: ReLU of queries and keys in place of the softmax, in time linear in the tokens"
    )
    learn_sigma: bool = Field(True, description="the last layer computes 2C channels; ddpm reads the second C")

    @model_validator(mode="after")
    def _widths_divide(self) -> DiTSpec:
        if self.hidden % self.heads:
            raise ValueError(f"hidden {self.hidden} must be a multiple of heads {self.heads}")
        if self.hidden % 4:
            raise ValueError(f"hidden {self.hidden} must be a multiple of 4: sines and cosines of rows and columns")
        return self


FREQUENCIES = 256  # number of sinusoids in the time embedding


_DIT_SIZES = {
    "S": {"depth": 12, "hidden": 384, "heads": 6},
    "B": {"depth": 12, "hidden": 768, "heads": 12},
    "L": {"depth": 24, "hidden": 1024, "heads": 16},
    "XL": {"depth": 28, "hidden": 1152, "heads": 16},
}


def _dit_family(name: str) -> Family:
    return Family(
        name=name,
        spec=DiTSpec,
        published={f"{name}-{size}/{p}": {**dims, "patch": p} for size, dims in _DIT_SIZES.items() for p in (2, 4, 8)},
        token_order=TokenOrder.SET,
        builder="tread_bench.backbones.dit.network:DiT",
    )


DIT = _dit_family("DiT")
SIT = _dit_family("SiT")
