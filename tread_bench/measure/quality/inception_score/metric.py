"""Inception score: Salimans et al. 2016. The maths is torch-fidelity's."""

from __future__ import annotations

from torch_fidelity.metric_isc import KEY_METRIC_ISC_MEAN, isc_features_to_metric

from tread_bench.measure.quality.inception_score.family import SEED, SPLITS, InceptionScoreOptions
from tread_bench.measure.quality.samples import Samples


class InceptionScore:
    """The mean over splits, shuffled by a fixed seed."""

    def __init__(self, options: InceptionScoreOptions) -> None:
        pass

    def __call__(self, generated: Samples, real: Samples) -> dict[str, float]:
        found = isc_features_to_metric(generated.logits, SPLITS, shuffle=True, rng_seed=SEED)
        return {"inception_score": found[KEY_METRIC_ISC_MEAN]}
