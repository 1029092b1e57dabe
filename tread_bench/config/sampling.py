"""How images are generated for the metrics."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from tread_bench.config.base import Float, Int, Model


class Sampling(Model):
    """How images are generated for the metrics."""

    sampler: Literal["euler"] = "euler"
    steps: Int = Field(50, ge=1)
    guidance: Literal["none", "cfg"] = "none"
    guidance_scale: Float = Field(1.0, ge=0, description="1 is no guidance and makes one call per step")

    @model_validator(mode="after")
    def _scale_needs_guidance(self) -> Sampling:
        if self.guidance == "none" and self.guidance_scale != 1:
            raise ValueError(
                f"guidance_scale {self.guidance_scale:g} has no effect with guidance none; set guidance: cfg"
            )
        return self
