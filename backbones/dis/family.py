"""DiS: sizes and published names, without torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field, model_validator

from tread_bench.core.describe.families import BackboneSpec, Family, mirrored_skips
from tread_bench.core.describe.mixers import MixerSize, both_ways
from tread_bench.core.describe.selectors import TokenOrder

if TYPE_CHECKING:
    MixerName = str
else:
    MixerName = Literal[both_ways()]


class DiSSpec(BackboneSpec):
    """Sizes of DiS (Fei et al., "Scalable Diffusion Models with State Space Backbone", arXiv 2402.05608)."""

    depth: int = Field(24, ge=2, description="blocks without the middle one: half push a long skip, half pop one")
    hidden: int = Field(368, ge=2)
    drop_path: float = Field(0.1, ge=0, lt=1, description="rate at the last block, linear from 0; in training only")
    mixer: MixerName = Field("mamba", description="what mixes the tokens of a block, in both directions")
    learn_sigma: bool = Field(True, description="the last layer computes 2C channels; ddpm reads the second C")

    @model_validator(mode="after")
    def _sizes_divide(self) -> DiSSpec:
        if self.depth % 2:
            raise ValueError(f"depth {self.depth} must be even: every long skip joins one block to another")
        if self.hidden % 2:
            raise ValueError(f"hidden {self.hidden} must be even: sines and cosines of the time")
        return self

    @property
    def mixer_size(self) -> MixerSize:
        """Sizes of a block's mixer."""
        return MixerSize(self.hidden, heads=1, depth=self.depth + 1, directions=2)

    @property
    def num_prefix(self) -> int:
        """Number of prefix tokens: label and time, or only the time."""
        return 2 if self.num_classes else 1


_SIZES = {
    "S": {"depth": 24, "hidden": 368},
    "B": {"depth": 24, "hidden": 768},
    "M": {"depth": 48, "hidden": 768},
    "L": {"depth": 48, "hidden": 1024},
    "H": {"depth": 48, "hidden": 1536},
}

DIS = Family(
    name="DiS",
    aliases=("Mamba",),
    spec=DiSSpec,
    published={f"DiS-{size}/{p}": {**dims, "patch": p} for size, dims in _SIZES.items() for p in (2, 4)},
    token_order=TokenOrder.SEQUENCE,
    num_blocks=lambda spec: spec.depth + 1,
    long_skips=lambda spec: mirrored_skips(spec.depth + 1),
    builder="tread_bench.backbones.dis.network:DiS",
    num_prefix=lambda spec: spec.num_prefix,
    time_scale=1000.0,  # the release numbers its noise levels 0 to 999
)
