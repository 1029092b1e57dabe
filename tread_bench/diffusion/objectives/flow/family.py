"""Description of flow matching, without torch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tread_bench.core.describe.objectives import ObjectiveFamily, ObjectiveOptions


class OnLinearPath(ObjectiveOptions):
    """Options of an objective whose times run from 0, data, to 1, noise."""

    @property
    def time_range(self) -> tuple[float, float]:
        """The times of data and of noise."""
        return 0.0, 1.0

    def sampling_time(self, step: int, steps: int) -> float:
        """Return the time at which step `step` of `steps` starts: equal steps from 1 to 0."""
        return (steps - step) / steps


class FlowOptions(OnLinearPath):
    """Flow matching on the linear path with velocity prediction: x_t = (1-t) x + t noise, v = noise - x."""

    name: Literal["flow"] = "flow"
    times: Literal["logit_normal", "uniform"] = Field("logit_normal", description="distribution of training times t")


FLOW = ObjectiveFamily(
    name="flow",
    options=FlowOptions,
    builder="tread_bench.diffusion.objectives.flow.objective:Flow",
    has_noise_levels=False,
)
