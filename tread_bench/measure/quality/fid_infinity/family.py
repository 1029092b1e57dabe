"""FID∞, without torch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tread_bench.core.config.base import Int
from tread_bench.core.describe.metrics import Figure, MetricFamily, MetricOptions, Needs

SEED = 2020  # of the subsets


class FidInfinityOptions(MetricOptions):
    """Fréchet distance extrapolated to infinitely many generated images (Chong and Forsyth 2020)."""

    name: Literal["fid_infinity"] = "fid_infinity"
    smallest: Int = Field(5000, ge=2, description="images of the smallest subset, or a tenth of all if that is more")
    points: Int = Field(15, ge=3, description="subsets, of evenly spaced sizes up to all images")


FID_INFINITY = MetricFamily(
    name="fid_infinity",
    options=FidInfinityOptions,
    builder="tread_bench.measure.quality.fid_infinity.metric:ExtrapolatedDistance",
    figures=(
        Figure(
            name="fid_infinity",
            title="FID∞",
            definition="FID extrapolated to infinitely many generated images (Chong and Forsyth 2020), which removes "
            "the bias of their number; lower is better",
            lower_is_better=True,
            of_itself=0.0,
            by_linear_algebra=True,
        ),
    ),
    needs=frozenset({Needs.FEATURES}),
    real_needs=frozenset({Needs.STATISTICS}),
    min_samples=lambda options: 2 * options.smallest,
    protocol=lambda options: f"{options.points} subsets of {options.smallest} images or a tenth, to all, seed {SEED}",
)
