"""Precision and recall: Kynkäänniemi et al. 2019. The maths is torch-fidelity's, in float64."""

from __future__ import annotations

from torch_fidelity.metric_prc import KEY_METRIC_PRECISION, KEY_METRIC_RECALL, prc_features_to_metric

from tread_bench.measure.quality.precision_recall.family import PrecisionRecallOptions
from tread_bench.measure.quality.samples import Samples


class PrecisionRecall:
    """Shares of images that lie among the nearest neighbours of the other set."""

    def __init__(self, options: PrecisionRecallOptions) -> None:
        self.neighbours = options.neighbours

    def __call__(self, generated: Samples, real: Samples) -> dict[str, float]:
        found = prc_features_to_metric(
            generated.features.double(),
            real.features.double(),
            prc_neighborhood=self.neighbours,
            save_cpu_ram=True,
            verbose=False,
        )
        return {"precision": found[KEY_METRIC_PRECISION], "recall": found[KEY_METRIC_RECALL]}
