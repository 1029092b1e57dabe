"""Inception score: Salimans et al. 2016, by torch-fidelity's splits or by ADM's chunks."""

from __future__ import annotations

import math

from torch import Tensor
from torch_fidelity.metric_isc import KEY_METRIC_ISC_MEAN, KEY_METRIC_ISC_STD, isc_features_to_metric

from tread_bench.core.describe.metrics import Estimate
from tread_bench.core.numbers.statistics import CONFIDENCE, mean_interval, student_quantile
from tread_bench.measure.quality.inception_score.family import SEED, SPLITS, InceptionScoreOptions
from tread_bench.measure.quality.samples import Samples

_FURTHEST = 600.0  # that a logit lies below the image's largest: its probability is then above 0 in float64


class InceptionScore:
    """The mean over ten splits, shuffled by a fixed seed, or over chunks in the order of the images."""

    def __init__(self, options: InceptionScoreOptions) -> None:
        self.chunk = options.chunk

    def __call__(self, generated: Samples, real: Samples) -> dict[str, Estimate]:
        if self.chunk is not None:
            return {"inception_score": logits_to_inception_score(generated.logits, self.chunk)}
        found = isc_features_to_metric(_positive(generated.logits), SPLITS, shuffle=True, rng_seed=SEED)
        score = found[KEY_METRIC_ISC_MEAN]
        error = found[KEY_METRIC_ISC_STD] / math.sqrt(SPLITS - 1)  # their deviation divides by the number of splits
        half = student_quantile((1 + CONFIDENCE) / 2, SPLITS - 1) * error
        method = f"t interval over {SPLITS} splits of the images"
        return {"inception_score": Estimate(value=score, low=score - half, high=score + half, method=method)}


def logits_to_inception_score(logits: Tensor, chunk: int = 5000) -> Estimate:
    """Inception score as ADM computes it: the mean of exp(E KL(p(y|x) | p(y))) over consecutive chunks.

    The last chunk counts as much as the others even if it is smaller. The probabilities are those of the softmax of the
    logits; ADM's logits have no bias. The interval is Student's t over chunks; a single chunk has none.

    Args:
        logits: (n, classes) float32, in the order of the images, which is not changed; computed in float64.
        chunk: images at a time, at least 1.

    Raises:
        ValueError: there are no logits, or some are NaN or infinite.

    Source: Salimans et al. 2016; Dhariwal and Nichol 2021, evaluations/evaluator.py.
    """
    if not len(logits) or chunk < 1:
        raise ValueError(f"{len(logits)} logits in chunks of {chunk}: a score takes one or more of both")
    parts = _positive(logits).split(chunk)
    scores = [isc_features_to_metric(part, splits=1, shuffle=False)[KEY_METRIC_ISC_MEAN] for part in parts]
    found = mean_interval(scores)
    method = "" if found.bounds is None else f"t interval over {len(scores)} chunks of {chunk} images"
    return Estimate(value=found.mean, low=found.low, high=found.high, method=method)


def _positive(logits: Tensor) -> Tensor:
    """Logits in float64, whose probabilities are above 0: torch-fidelity's 0 log 0 is NaN."""
    logits = logits.double()
    return logits.maximum(logits.amax(1, keepdim=True) - _FURTHEST)
