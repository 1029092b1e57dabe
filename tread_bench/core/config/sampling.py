"""Settings for generating the images that metrics are computed on."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

from pydantic import Field, model_validator

from tread_bench.core.config.base import Float, Model, Whole
from tread_bench.core.config.choices import UNGUIDED, GuidanceChoice
from tread_bench.core.describe.objectives import ObjectiveOptions, SamplerFamily, objectives, samplers

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
    steps: Whole = Field(50, ge=1, le=10_000)
    churn: Churn | None = Field(None, description="noise added while sampling, over noise levels; empty: none")
    guidance: GuidanceChoice = UNGUIDED
    guidance_scale: Float = Field(1.0, ge=0, description="s in D_weak + s (D_strong - D_weak); 1: unguided")

    @model_validator(mode="after")
    def _settings_fit(self) -> Sampling:
        is_guided = self.guidance.branches[1] is not None
        if not is_guided and self.guidance_scale != 1:
            what = f"guidance_scale {self.guidance_scale:g} has no effect with guidance {self.guidance.name}"
            raise ValueError(f"{what}; set guidance: cfg")
        if is_guided and "guidance_scale" not in self.model_fields_set:
            what = f"guidance {self.guidance.name} has no scale, and 1 would be no guidance"
            raise ValueError(f"{what}: set guidance_scale (--scale of sample), such as 1.5")
        if self.churn is not None and not self.sampler_family.takes_churn:
            able = ", ".join(one.name for one in samplers().values() if one.takes_churn)
            rule = f"sampler {self.sampler} takes no noise between its steps"
            raise ValueError(f"churn: {rule}; set churn: null, or sampler to one of {able}")
        return self

    @property
    def sampler_family(self) -> SamplerFamily:
        return samplers.find(self.sampler)


def misfits(sampling: Sampling, objective: ObjectiveOptions) -> Iterator[tuple[str, str]]:
    """Yield each key of a sampling that does not fit the objective of the network, with a message."""
    able = " or ".join(one.name for one in objectives().values() if one.has_noise_levels)
    has_levels = objective.family.has_noise_levels
    if sampling.churn and not has_levels:
        rule = f"objective {objective.name} has no noise level that churn could raise"
        yield "churn", f"sampling.churn: {rule}; set churn: null or objective: {able}"
    if sampling.sampler_family.needs_noise_levels and not has_levels:
        others = " or ".join(one.name for one in samplers().values() if not one.needs_noise_levels)
        rule = f"takes its steps over noise levels, and objective {objective.name} has none"
        yield "sampler", f"sampling.sampler {sampling.sampler}: {rule}; set sampler: {others}, or objective: {able}"
    most = objective.most_sampling_steps
    if most is not None and sampling.steps > most:
        rule = f"objective {objective.name} has {most} noise levels; set steps to at most that"
        yield "steps", f"sampling.steps {sampling.steps}: {rule}"


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the velocity by a sampler: its step, and whether both branches are needed."""

    step: int
    guided: bool


def calls(sampling: Sampling, times: Sequence[float]) -> list[Call]:
    """List the sampler's calls in order. A call at the end of a step, such as Heun's second, belongs to the next step.

    Guidance applies if low < t <= high (Kynkäänniemi et al. 2024, eq. 6), where t is the time of the call. Otherwise,
    and at scale 1, the prediction is that of the strong branch.

    Args:
        times: the sampler's times, steps + 1.
    """
    low, high = sampling.guidance.guided_times or (-math.inf, math.inf)
    is_guided = sampling.guidance_scale != 1
    return [
        Call(step + (time == after), is_guided and low < time <= high)
        for step, (now, after) in enumerate(pairwise(times))
        for time in sampling.sampler_family.call_times(now, after)
    ]
