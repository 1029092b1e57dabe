"""FID, without torch."""

from __future__ import annotations

from typing import Literal

from tread_bench.core.describe.metrics import Figure, MetricFamily, MetricOptions, Needs


class FidOptions(MetricOptions):
    """Fréchet distance of generated to reference features (Heusel et al. 2017)."""

    name: Literal["fid"] = "fid"


FID = MetricFamily(
    name="fid",
    options=FidOptions,
    builder="tread_bench.measure.quality.fid.metric:FrechetDistance",
    figures=(
        Figure(
            name="fid",
            title="FID",
            definition="Fréchet distance of generated to reference features (Heusel et al. 2017); lower is better",
            lower_is_better=True,
            of_itself=0.0,
            by_linear_algebra=True,
        ),
    ),
    needs=frozenset({Needs.STATISTICS}),
    min_samples=lambda options: 2,
    protocol=lambda options: "",
    protocol_samples=50_000,
)
