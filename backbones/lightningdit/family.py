"""LightningDiT: sizes, published names and closed-form cost, without torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from pydantic import Field, model_validator

from tread_bench.backbones.dit.family import DiTSpec, dit_cost
from tread_bench.core.describe.families import Cost, Family, Macs
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


def lightningdit_cost(spec: LightningDiTSpec, tokens: Sequence[int]) -> Cost:
    """DiT's cost, with the three D x H matrices of SwiGLU instead of the MLP's two, and a gain in every norm."""
    dit = dit_cost(spec, tokens)
    width = spec.hidden
    mlp = int(width * spec.mlp_ratio)
    gated = spec.swiglu_hidden
    more = 3 * width * gated - 2 * width * mlp
    more_params = spec.depth * (more + (2 * gated - mlp) + 2 * width) + width
    assert dit.last_layer is not None
    return replace(
        dit,
        last_layer=replace(dit.last_layer, params=dit.last_layer.params + width),
        params=dit.params + more_params,
        trainable_params=dit.trainable_params + more_params,
        blocks=tuple(block + Macs(linear=t * more) for block, t in zip(dit.blocks, tokens, strict=True)),
    )


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
    num_blocks=lambda spec: spec.depth,
    builder="tread_bench.backbones.lightningdit.network:LightningDiT",
    cost=lightningdit_cost,
)
