"""Settings for generating the images that metrics are computed on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field, model_validator

from tread_bench.core.config.base import Float, Int, Model
from tread_bench.core.config.guidance import UNGUIDED, GuidanceChoice
from tread_bench.core.describe.samplers import SamplerFamily, find_sampler, samplers

if TYPE_CHECKING:
    SamplerName = str
else:
    SamplerName = Literal[tuple(samplers())]


class Churn(Model):
    """EDM's stochastic sampler: noise is added before a step (Karras et al. 2022, Algorithm 2)."""

    s_churn: Float = Field(ge=0, description="how much noise, over all steps; 0 is the deterministic sampler")
    s_min: Float = Field(0.0, ge=0, description="lowest sigma at which noise is added")
    s_max: Float | None = Field(None, ge=0, description="highest sigma at which noise is added; empty: any")
    s_noise: Float = Field(1.0, gt=0, description="standard deviation of the added noise")

    @model_validator(mode="after")
    def _range_ascends(self) -> Churn:
        if self.s_max is not None and self.s_min > self.s_max:
            raise ValueError(f"s_min {self.s_min:g} must not exceed s_max {self.s_max:g}; change one")
        return self


class Sampling(Model):
    """Settings for generating the images that metrics are computed on."""

    sampler: SamplerName = "euler"
    steps: Int = Field(50, ge=1)
    churn: Churn | None = Field(None, description="noise added while sampling, with objective edm; empty: none")
    guidance: GuidanceChoice = UNGUIDED
    guidance_scale: Float = Field(
        1.0,
        ge=0,
        description="s in D_weak + s (D_strong - D_weak), which a rule must be given; 1 is the strong branch alone",
    )

    @model_validator(mode="after")
    def _scale_needs_guidance(self) -> Sampling:
        if self.guidance.branches[1] is None and self.guidance_scale != 1:
            what = f"guidance_scale {self.guidance_scale:g} has no effect with guidance {self.guidance.name}"
            raise ValueError(f"{what}; set guidance: cfg")
        return self

    @model_validator(mode="after")
    def _guidance_needs_scale(self) -> Sampling:
        if self.guidance.branches[1] is not None and "guidance_scale" not in self.model_fields_set:
            raise ValueError(
                f"guidance {self.guidance.name} has no scale, and 1 would be no guidance: "
                "set guidance_scale (--scale of sample), such as 1.5"
            )
        return self

    @model_validator(mode="after")
    def _sampler_takes_churn(self) -> Sampling:
        if self.churn is not None and not self.sampler_family.takes_churn:
            able = ", ".join(one.name for one in samplers().values() if one.takes_churn)
            rule = f"sampler {self.sampler} takes no noise between its steps"
            raise ValueError(f"churn: {rule}; set churn: null, or sampler to one of {able}")
        return self

    @property
    def sampler_family(self) -> SamplerFamily:
        return find_sampler(self.sampler)

    @property
    def velocity_calls(self) -> int:
        """Number of velocity calls over all steps."""
        return self.sampler_family.num_calls(self.steps)
