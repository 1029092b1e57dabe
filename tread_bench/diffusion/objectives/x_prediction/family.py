"""Description of x-prediction, without torch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tread_bench.core.config.base import Float
from tread_bench.core.describe.objectives import ObjectiveFamily
from tread_bench.diffusion.objectives.flow.family import OnLinearPath


class XPredictionOptions(OnLinearPath):
    """The data are predicted, with the error of the velocity: x_t = (1-t) x + t noise (JiT, arXiv 2511.13720)."""

    name: Literal["x_prediction"] = "x_prediction"
    p_mean: Float = Field(0.8, ge=-10, le=10, description="mean of ln(t / (1-t)) in training")
    p_std: Float = Field(0.8, ge=0.01, le=5, description="standard deviation of ln(t / (1-t)) in training")
    least_time: Float = Field(0.05, gt=0, lt=1, description="time below which errors and velocities are divided by it")
    noise_scale: Float = Field(1.0, gt=0, le=100, description="of the noise; JiT has 1 at 256 pixels and 2 at 512")


X_PREDICTION = ObjectiveFamily(
    name="x_prediction",
    options=XPredictionOptions,
    builder="tread_bench.diffusion.objectives.x_prediction.objective:XPrediction",
    has_noise_levels=False,
)
