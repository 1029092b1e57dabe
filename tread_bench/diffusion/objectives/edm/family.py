"""Description of EDM, without torch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from tread_bench.core.config.base import Float
from tread_bench.core.describe.objectives import ObjectiveFamily, ObjectiveOptions


class EdmOptions(ObjectiveOptions):
    """EDM: a preconditioned denoiser of x + sigma noise, with log-normal noise levels (Karras et al. 2022, Table 1)."""

    name: Literal["edm"] = "edm"
    p_mean: Float = Field(-1.2, ge=-10, le=10, description="mean of ln sigma in training")
    p_std: Float = Field(1.2, ge=0.01, le=5, description="standard deviation of ln sigma in training")
    sigma_data: Float = Field(0.5, gt=0, le=1000, description="standard deviation of the data")
    sigma_min: Float = Field(0.002, ge=1e-6, description="lowest noise level of sampling before 0")
    sigma_max: Float = Field(80.0, le=1e6, description="noise level where sampling starts")
    rho: Float = Field(7.0, ge=1, le=100, description="the larger, the shorter the sampling steps at low noise")

    @model_validator(mode="after")
    def _levels_descend(self) -> EdmOptions:
        if self.sigma_min >= self.sigma_max:
            raise ValueError(f"sigma_min {self.sigma_min:g} must be less than sigma_max {self.sigma_max:g}; change one")
        return self

    @property
    def time_range(self) -> tuple[float, float]:
        """The lowest and the highest noise level."""
        return self.sigma_min, self.sigma_max

    def sampling_time(self, step: int, steps: int) -> float:
        """Return the level of step `step` of `steps`: equal distances in sigma^(1 / rho), then 0 (eq. 5)."""
        if step == steps:
            return 0.0
        first, last, distances = self.sigma_max ** (1 / self.rho), self.sigma_min ** (1 / self.rho), max(1, steps - 1)
        return float(((distances - step) * first + step * last) / distances) ** self.rho


EDM = ObjectiveFamily(
    name="edm",
    options=EdmOptions,
    builder="tread_bench.diffusion.objectives.edm.objective:Edm",
    has_noise_levels=True,
)
