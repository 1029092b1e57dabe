"""DRWKV (Diffusion-RWKV): sizes and published names, without torch."""

from __future__ import annotations

from pydantic import Field, model_validator

from tread_bench.core.describe.families import BackboneSpec, Family, mirrored_skips
from tread_bench.core.describe.selectors import TokenOrder

MLP_RATIO = 4


class DRWKVSpec(BackboneSpec):
    """Sizes of Diffusion-RWKV (Fei et al., arXiv 2404.04478)."""

    depth: int = Field(
        13, ge=3, description="blocks: half of them push a long skip, one is in the middle, half pop one"
    )
    hidden: int = Field(384, ge=4)
    drop_path: float = Field(0.1, ge=0, lt=1, description="rate times block number over depth; in training only")
    learn_sigma: bool = Field(True, description="the last layer computes 2C channels; ddpm reads the second C")

    @model_validator(mode="after")
    def _sizes_divide(self) -> DRWKVSpec:
        if self.depth % 2 == 0:
            raise ValueError(
                f"depth {self.depth} must be odd: every long skip joins one block to another, around a middle one"
            )
        if self.hidden % 4:
            raise ValueError(
                f"hidden {self.hidden} must be a multiple of 4: a quarter of the channels for each direction"
            )
        return self


_SIZES = {
    "S": {"depth": 13, "hidden": 384},
    "B": {"depth": 25, "hidden": 384},
    "M": {"depth": 25, "hidden": 512},
    "L": {"depth": 37, "hidden": 768},
    "H": {"depth": 37, "hidden": 1024},
}

DRWKV = Family(
    name="DRWKV",
    aliases=("RWKV",),
    spec=DRWKVSpec,
    published={f"DRWKV-{size}/{p}": {**dims, "patch": p} for size, dims in _SIZES.items() for p in (2, 4)},
    token_order=TokenOrder.GRID,
    long_skips=lambda spec: mirrored_skips(spec.depth),
    builder="tread_bench.backbones.rwkv.network:DRWKV",
    time_scale=1000.0,  # the release numbers its noise levels 0 to 999
)
