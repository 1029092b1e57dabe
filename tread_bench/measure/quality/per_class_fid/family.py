"""FID of each class, without torch."""

from __future__ import annotations

from typing import Literal

from tread_bench.core.describe.metrics import Figure, MetricFamily, MetricOptions, Needs


class PerClassFidOptions(MetricOptions):
    """Mean over classes of the Fréchet distance within a class (intra-FID, Miyato and Koyama 2018)."""

    name: Literal["per_class_fid"] = "per_class_fid"


PER_CLASS_FID = MetricFamily(
    name="per_class_fid",
    options=PerClassFidOptions,
    builder="tread_bench.measure.quality.per_class_fid.metric:DistanceWithinClasses",
    figures=(
        Figure(
            name="per_class_fid",
            title="FID per class",
            definition="mean over classes of the Fréchet distance of generated to reference features of one class "
            "(intra-FID, Miyato and Koyama 2018); biased upwards by the few images of a class; lower is better",
            lower_is_better=True,
            of_itself=0.0,
            by_linear_algebra=True,
        ),
    ),
    needs=frozenset({Needs.FEATURES, Needs.LABELS}),
    real_needs=frozenset({Needs.FEATURES, Needs.LABELS}),
    min_samples=lambda options: 2,
    min_per_class=lambda options: 2,
    protocol=lambda options: "features that are kept, classes of the generated images, 1",
)
