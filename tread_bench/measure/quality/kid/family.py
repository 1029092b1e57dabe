"""KID, without torch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tread_bench.core.config.base import Int
from tread_bench.core.describe.metrics import Figure, MetricFamily, MetricOptions, Needs

SEED = 2020  # torch-fidelity's own, of the subsets


class KidOptions(MetricOptions):
    """Kernel distance of generated to reference features (Bińkowski et al. 2018)."""

    name: Literal["kid"] = "kid"
    subset_size: Int = Field(100, ge=2)
    subsets: Int = Field(50, ge=1)


KID = MetricFamily(
    name="kid",
    options=KidOptions,
    builder="tread_bench.measure.quality.kid.metric:KernelDistance",
    figures=(
        Figure(
            name="kid",
            title="KID",
            definition="kernel distance of the features (Bińkowski et al. 2018); lower is better",
            lower_is_better=True,
            of_itself=0.0,
            by_linear_algebra=True,
        ),
    ),
    needs=frozenset({Needs.FEATURES}),
    min_samples=lambda options: options.subset_size,
    protocol=lambda options: f"{options.subsets} subsets of {options.subset_size}, cubic kernel, seed {SEED}",
)
