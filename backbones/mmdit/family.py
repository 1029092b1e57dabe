"""MMDiT: sizes and published names, without torch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from tread_bench.backbones.dit.family import DiTSpec
from tread_bench.core.describe.families import Family
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


MMDIT = Family(
    name="MMDiT",
    spec=MMDiTSpec,
    published={  # for MS-COCO, with features of a caption from CLIP ViT-L/14; the release gives the size no name
        "MMDiT-B/2-T2I": {"depth": 24, "hidden": 768, "heads": 24, "context_tokens": 77, "context_dim": 768, "patch": 2}
    },
    token_order=TokenOrder.SET,
    builder="tread_bench.backbones.mmdit.network:MMDiT",
)
