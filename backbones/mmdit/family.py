"""MMDiT: sizes, published names and closed-form cost, without torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field, model_validator

from tread_bench.backbones.dit.family import FREQUENCIES, DiTSpec
from tread_bench.core.describe.families import Cost, Family, LastLayer, Macs
from tread_bench.core.describe.selectors import TokenOrder


class MMDiTSpec(DiTSpec):
    """Sizes of MMDiT (Esser et al., ICML 2024), which takes text and no labels."""

    num_classes: int = Field(0, ge=0, description="labels, of which it takes none: 0")
    context_tokens: int = Field(77, ge=1, description="text tokens that y holds")
    attention: Literal["softmax"] = Field("softmax", description="image and text share one softmax")
    learn_sigma: bool = Field(False, description="the last layer computes 2C channels; ddpm reads the second C")

    @model_validator(mode="after")
    def _labels_or_text(self) -> MMDiTSpec:
        if self.num_classes:
            raise ValueError(
                f"num_classes {self.num_classes}: MMDiT takes text and no labels; take data with captions, or a "
                "backbone that takes labels, such as DiT"
            )
        return self


def mmdit_cost(spec: MMDiTSpec, tokens: Sequence[int]) -> Cost:
    """Per block of T tokens and M of text: 12 (T + M) D^2 + 12 D^2 linear (at MLP ratio 4), 2 (T + M)^2 D attention.

    Of the text, the last block computes 3 M D^2 + 2 D^2 linear: what the image reads.
    """
    # Blocks.
    width = spec.hidden
    mlp = int(width * spec.mlp_ratio)
    square = width * width
    per_token = 4 * square + 2 * width * mlp
    text = spec.context_tokens
    of_text = [text * per_token + 6 * square] * (spec.depth - 1) + [3 * text * square + 2 * square]
    blocks = tuple(
        Macs(linear=t * per_token + 6 * square + more, attention=2 * (t + text) ** 2 * width)
        for t, more in zip(tokens, of_text, strict=True)
    )

    # Outside the blocks.
    patch_out = spec.patch**2 * spec.out_channels
    patches = spec.num_tokens * width * spec.patch_values
    text_in = text * spec.context_dim * width
    last_layer = LastLayer(
        width,
        condition=width,
        params=2 * square + 2 * width + (width + 1) * patch_out,
        macs=2 * square + spec.num_tokens * width * patch_out,
    )
    time = FREQUENCIES * width + square
    outside = Macs(linear=time + patches + text_in + last_layer.macs)

    # Parameters: in each block but the last, both streams have their own.
    per_stream = per_token + 6 * square + 4 * width + (mlp + width) + 6 * width
    params = (
        (2 * spec.depth - 1) * per_stream
        + 5 * (square + width)
        + (spec.patch_values + 1) * width
        + time
        + 2 * width
        + (spec.context_dim + 1) * width
        + last_layer.params
    )
    return Cost(params, params, blocks, outside, FREQUENCIES * width + patches + text_in, last_layer)


MMDIT = Family(
    name="MMDiT",
    spec=MMDiTSpec,
    published={  # for MS-COCO, with features of a caption from CLIP ViT-L/14; the release gives the size no name
        "MMDiT-B/2-T2I": {"depth": 24, "hidden": 768, "heads": 24, "context_tokens": 77, "context_dim": 768, "patch": 2}
    },
    token_order=TokenOrder.SET,
    num_blocks=lambda spec: spec.depth,
    builder="tread_bench.backbones.mmdit.network:MMDiT",
    cost=mmdit_cost,
)
