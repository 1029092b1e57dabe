"""JiT: sizes and published names, without torch."""

from __future__ import annotations

from pydantic import Field, model_validator

from tread_bench.core.describe.families import BackboneSpec, Family
from tread_bench.core.describe.selectors import TokenOrder


class JiTSpec(BackboneSpec):
    """Sizes of JiT (Li and He, arXiv 2511.13720)."""

    depth: int = Field(12, ge=1)
    hidden: int = Field(768, ge=4)
    heads: int = Field(12, ge=1)
    mlp_ratio: float = Field(4.0, gt=0)
    bottleneck: int = Field(128, ge=1, description="width that a patch passes on its way to a token")
    in_context_tokens: int = Field(32, ge=0, description="copies of the label that join the image tokens; 0: none")
    in_context_start: int = Field(4, ge=0, description="block before which they join")

    @model_validator(mode="after")
    def _heads_rotate(self) -> JiTSpec:
        if self.hidden % self.heads or self.hidden // self.heads % 4:
            raise ValueError(
                f"hidden {self.hidden} over heads {self.heads} must be a multiple of 4: "
                "half of a head's channels turn by row, half by column, in pairs"
            )
        return self

    @model_validator(mode="after")
    def _in_context_tokens_join(self) -> JiTSpec:
        if self.in_context_tokens and self.in_context_start >= self.depth:
            raise ValueError(
                f"in_context_start {self.in_context_start}: must be one of the {self.depth} blocks, 0 to "
                f"{self.depth - 1}; for none, set in_context_tokens: 0"
            )
        return self

    @property
    def swiglu_hidden(self) -> int:
        """Two thirds of the MLP's width, so that three matrices have as many parameters as two."""
        return int(int(self.hidden * self.mlp_ratio) * 2 / 3)

    def in_context(self, block: int) -> int:
        """Return the number of in-context tokens that a block sees beside the image tokens."""
        return self.in_context_tokens if block >= self.in_context_start else 0


_SIZES = {
    "B": {"depth": 12, "hidden": 768, "heads": 12, "bottleneck": 128, "in_context_start": 4},
    "L": {"depth": 24, "hidden": 1024, "heads": 16, "bottleneck": 128, "in_context_start": 8},
    "H": {"depth": 32, "hidden": 1280, "heads": 16, "bottleneck": 256, "in_context_start": 10},
}
_INPUTS = {16: {"patch": 16, "image_size": 256, "channels": 3}, 32: {"patch": 32, "image_size": 512, "channels": 3}}

JIT = Family(
    name="JiT",
    spec=JiTSpec,
    published={f"JiT-{size}/{p}": {**dims, **shape} for size, dims in _SIZES.items() for p, shape in _INPUTS.items()},
    token_order=TokenOrder.SET,
    builder="tread_bench.backbones.jit.network:JiT",
)
