"""Description of DDPM, without torch."""

from __future__ import annotations

from functools import cache
from itertools import accumulate, repeat
from typing import Literal

import numpy as np
from pydantic import Field

from tread_bench.core.describe.objectives import ObjectiveFamily, ObjectiveOptions

STEPS = 1000
Schedule = Literal["linear", "stable_diffusion"]
SCHEDULES: dict[Schedule, tuple[float, float, int]] = {  # first and last beta; of which root beta is linear in the step
    "linear": (1e-4, 0.02, 1),
    "stable_diffusion": (0.00085, 0.012, 2),
}


class DdpmOptions(ObjectiveOptions):
    """DDPM: the noise of one of 1,000 levels is predicted, and on request a variance (Ho et al. 2020, Nichol 2021)."""

    name: Literal["ddpm"] = "ddpm"
    schedule: Schedule = Field("linear", description="of beta: ADM's and DiT's, or Stable Diffusion's scaled one")
    learned_variance: bool = Field(
        False, description="also learn the variance of a step, as ADM and DiT do; needs a backbone with learn_sigma"
    )

    @property
    def reads_variance(self) -> bool:
        return self.learned_variance

    @property
    def time_range(self) -> tuple[float, float]:
        """The noise levels of the first and of the last step."""
        levels = noise_levels(self.schedule)
        return levels[0], levels[-1]

    @property
    def most_sampling_steps(self) -> int:
        return STEPS

    def sampling_time(self, step: int, steps: int) -> float:
        """Return the level of step `step` of `steps`, those of `respaced` from the last one down; then 0."""
        if step == steps:
            return 0.0
        return noise_levels(self.schedule)[respaced(steps)[-1 - step]]


@cache
def respaced(steps: int) -> tuple[int, ...]:
    """Return which of the 1,000 steps are taken, ascending: every n-th, with both ends.

    The stride is added up in floating point and rounded, as in ADM's `space_timesteps`. The sum decides halves: of 35
    steps the 18th is 499, and 17 strides are 499.5. A single step is the last.
    """
    if steps == 1:
        return (STEPS - 1,)
    stride = (STEPS - 1) / (steps - 1)
    return tuple(map(round, accumulate(repeat(stride, steps - 1), initial=0.0)))


@cache
def noise_levels(schedule: Schedule) -> tuple[float, ...]:
    """Return each step's ratio of noise to data, ascending: sqrt((1 - a) / a), a being the product of 1 - beta."""
    first, last, root = SCHEDULES[schedule]
    betas = np.linspace(first ** (1 / root), last ** (1 / root), STEPS) ** root
    kept = np.cumprod(1 - betas)
    levels: list[float] = np.sqrt((1 - kept) / kept).tolist()
    return tuple(levels)


DDPM = ObjectiveFamily(
    name="ddpm",
    options=DdpmOptions,
    builder="tread_bench.diffusion.objectives.ddpm.objective:Ddpm",
    has_noise_levels=True,
    numbers_levels=True,
    predicts_noise=True,
)
