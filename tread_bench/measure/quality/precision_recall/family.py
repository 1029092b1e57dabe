"""Precision and recall, without torch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tread_bench.core.config.base import Int
from tread_bench.core.describe.metrics import Figure, MetricFamily, MetricOptions, Needs

Distances = Literal["float16", "float32", "float64"]


class PrecisionRecallOptions(MetricOptions):
    """Shares of each set inside the other's manifold of features (Kynkäänniemi et al. 2019)."""

    name: Literal["precision_recall"] = "precision_recall"
    neighbours: Int = Field(3, ge=1)
    distances: Distances = Field("float64", description="precision of distances; float16 in blocks is ADM's")


def _protocol(options: PrecisionRecallOptions) -> str:
    neighbours = f"{options.neighbours} neighbours"
    return neighbours if options.distances == "float64" else f"{neighbours}, {options.distances} distances in blocks"


PRECISION_RECALL = MetricFamily(
    name="precision_recall",
    options=PrecisionRecallOptions,
    builder="tread_bench.measure.quality.precision_recall.metric:PrecisionRecall",
    figures=(
        Figure(
            name="precision",
            title="Precision",
            definition="share of generated images inside the reference manifold (Kynkäänniemi et al. 2019)",
            lower_is_better=False,
            of_itself=1.0,
        ),
        Figure(
            name="recall",
            title="Recall",
            definition="share of reference images inside the generated manifold (the same)",
            lower_is_better=False,
            of_itself=1.0,
        ),
    ),
    needs=frozenset({Needs.FEATURES}),
    min_samples=lambda options: options.neighbours + 1,
    protocol=_protocol,
    protocol_samples=50_000,
)
