"""Sizes shared by families that can be conditioned on text, without torch."""

from __future__ import annotations

from pydantic import Field, model_validator

from tread_bench.core.describe.families import BackboneSpec


class TextSpec(BackboneSpec):
    """With `context_tokens`, y holds the features of a text encoder instead of labels."""

    context_tokens: int = Field(0, ge=0, description="text tokens that y holds in place of a label; 0: none")
    context_dim: int = Field(768, ge=1, description="width of a text token, as its encoder gives it")

    @model_validator(mode="after")
    def _labels_or_text(self) -> TextSpec:
        if self.context_tokens and self.num_classes:
            raise ValueError(
                f"num_classes {self.num_classes} and context_tokens {self.context_tokens}: a model takes labels or "
                "text; set one of the two to 0"
            )
        return self

    @property
    def context_shape(self) -> tuple[int, int] | None:
        return (self.context_tokens, self.context_dim) if self.context_tokens else None
