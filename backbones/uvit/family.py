"""U-ViT: sizes and published names, without torch."""

from __future__ import annotations

from pydantic import Field, model_validator

from tread_bench.core.describe.families import Family, TextSpec, mirrored_skips
from tread_bench.core.describe.selectors import TokenOrder


class UViTSpec(TextSpec):
    """Sizes of U-ViT (Bao et al., CVPR 2023)."""

    depth: int = Field(12, ge=2, description="blocks without the middle one: half push a long skip, half pop one")
    hidden: int = Field(512, ge=2)
    heads: int = Field(8, ge=1)
    mlp_ratio: float = Field(4.0, gt=0)
    final_conv: bool = Field(True, description="a 3x3 convolution over the output; U-ViT-H has none")

    @model_validator(mode="after")
    def _sizes_divide(self) -> UViTSpec:
        if self.depth % 2:
            raise ValueError(f"depth {self.depth} must be even: every long skip joins one block to another")
        if self.hidden % self.heads:
            raise ValueError(f"hidden {self.hidden} must be a multiple of heads {self.heads}")
        if self.hidden % 2:
            raise ValueError(f"hidden {self.hidden} must be even: sines and cosines of the time")
        return self

    @property
    def num_prefix(self) -> int:
        """Number of prefix tokens: label and time, time and text, or only the time."""
        return 1 + bool(self.num_classes) + self.context_tokens


_SIZES = {
    "S": {"depth": 12, "hidden": 512, "heads": 8},
    "S-Deep": {"depth": 16, "hidden": 512, "heads": 8},
    "M": {"depth": 16, "hidden": 768, "heads": 12},
    "L": {"depth": 20, "hidden": 1024, "heads": 16},
    "H": {"depth": 28, "hidden": 1152, "heads": 16, "final_conv": False},
}
_CLIP = {"num_classes": 0, "context_tokens": 77, "context_dim": 768}  # features of a caption from CLIP ViT-L/14

UVIT = Family(
    name="U-ViT",
    spec=UViTSpec,
    published={f"U-ViT-{size}/{p}": {**dims, "patch": p} for size, dims in _SIZES.items() for p in (2, 4)}
    | {f"U-ViT-{size}/2-T2I": {**_SIZES[size], **_CLIP, "patch": 2} for size in ("S", "S-Deep")},
    token_order=TokenOrder.SET,
    num_blocks=lambda spec: spec.depth + 1,
    long_skips=lambda spec: mirrored_skips(spec.depth + 1),
    builder="tread_bench.backbones.uvit.network:UViT",
    num_prefix=lambda spec: spec.num_prefix,
    time_scale=1000.0,
    first_level=1,  # the release numbers the noise levels of latents 1 to 1000 (of pixels: 999 t)
)
