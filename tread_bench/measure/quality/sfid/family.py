"""sFID, without torch."""

from __future__ import annotations

from typing import Literal

from tread_bench.core.describe.metrics import Figure, MetricFamily, MetricOptions, Needs


class SfidOptions(MetricOptions):
    """Fréchet distance of generated to reference spatial features (Nash et al. 2021)."""

    name: Literal["sfid"] = "sfid"


SFID = MetricFamily(
    name="sfid",
    options=SfidOptions,
    builder="tread_bench.measure.quality.sfid.metric:SpatialFrechetDistance",
    figures=(
        Figure(
            name="sfid",
            title="sFID",
            definition="the same on spatial features (Nash et al. 2021), which Inception has; empty for other "
            "networks; lower is better",
            lower_is_better=True,
            of_itself=0.0,
            by_linear_algebra=True,
        ),
    ),
    needs=frozenset({Needs.SPATIAL}),
    min_samples=lambda options: 2,
    protocol=lambda options: "",
    protocol_samples=50_000,
)
