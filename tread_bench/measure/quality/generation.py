"""FID, KID, Inception score, precision and recall of generated images against real ones.

The maths is torch-fidelity's, in float64; here is what it lacks: statistics that stream and merge. FID: Heusel et al.
2017; KID: Binkowski et al. 2018, eq. 3 with the cubic kernel; Inception score: Salimans et al. 2016; precision and
recall: Kynkaanniemi et al. 2019.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch_fidelity.metric_fid import KEY_METRIC_FID, fid_statistics_to_metric
from torch_fidelity.metric_isc import KEY_METRIC_ISC_MEAN, isc_features_to_metric
from torch_fidelity.metric_kid import KEY_METRIC_KID_MEAN, kid_features_to_metric
from torch_fidelity.metric_prc import KEY_METRIC_PRECISION, KEY_METRIC_RECALL, prc_features_to_metric

from tread_bench.core.errors import UserError

if TYPE_CHECKING:
    from tread_bench.core.config.metrics import Metrics
    from tread_bench.measure.quality.features import Extractor
    from tread_bench.measure.quality.reference import Reference

METRICS_SEED = 2020  # torch-fidelity's own: KID's subsets and the order of IS's splits
IS_SPLITS = 10


class FeatureStatistics:
    """Float64 sums over features (n, d), and the features and logits themselves; adds up over batches and processes.

    Args:
        dims: length d of a feature vector.
    """

    def __init__(self, dims: int) -> None:
        self.count = 0
        self.total = torch.zeros(dims, dtype=torch.float64)
        self.outer = torch.zeros(dims, dims, dtype=torch.float64)
        self._features: list[Tensor] = []
        self._logits: list[Tensor] = []

    def add(self, features: Tensor, logits: Tensor | None = None, kept: slice = slice(None)) -> None:
        """Add features (B, d); the first `kept` of them, and the logits, are kept individually."""
        if not torch.isfinite(features).all():
            raise FloatingPointError("features contain NaN or infinite values, so no metric can be computed")
        features_BD = features.double()
        self.count += len(features_BD)
        self.total += features_BD.sum(0)
        self.outer += features_BD.T @ features_BD
        self._features.append(features[kept])
        if logits is not None:
            self._logits.append(logits)

    @classmethod
    def restored(cls, count: int, total: Tensor, outer: Tensor, features: Tensor) -> FeatureStatistics:
        """From sums and kept features that were stored."""
        statistics = cls(len(total))
        statistics.count = count
        statistics.total = total
        statistics.outer = outer
        statistics._features = [features]
        return statistics

    def merge(self, other: FeatureStatistics) -> FeatureStatistics:
        """The statistics of both, with this one's kept features first."""
        merged = FeatureStatistics(len(self.total))
        merged.count = self.count + other.count
        merged.total = self.total + other.total
        merged.outer = self.outer + other.outer
        merged._features = self._features + other._features
        merged._logits = self._logits + other._logits
        return merged

    @property
    def features(self) -> Tensor:
        """The kept features (m, d), float32."""
        return torch.cat(self._features)

    @property
    def logits(self) -> Tensor:
        return torch.cat(self._logits)

    @property
    def mean(self) -> Tensor:
        """(d,) float64."""
        return self.total / self.count

    @property
    def covariance(self) -> Tensor:
        """(d, d) float64, unbiased (n - 1)."""
        return (self.outer - self.count * torch.outer(self.mean, self.mean)) / (self.count - 1)


def frechet_distance(a: FeatureStatistics, b: FeatureStatistics) -> float:
    """|mean_a - mean_b|^2 + tr(C_a + C_b - 2 (C_a C_b)^(1/2)), at least 0: rounding can give slightly less."""
    gaussians = [{"mu": s.mean.numpy(), "sigma": s.covariance.numpy()} for s in (a, b)]
    return max(0.0, fid_statistics_to_metric(*gaussians, verbose=False)[KEY_METRIC_FID])


def check_sample_counts(metrics: Metrics, reference_count: int) -> None:
    """Raises UserError where there are too few images for a metric: subsets are never made smaller silently."""
    smallest, whose = min(
        (metrics.num_samples, f"metrics.num_samples {metrics.num_samples}"),
        (reference_count, f"a reference of {reference_count} images"),
    )
    if smallest < metrics.kid_subset_size:
        raise UserError(f"{whose} cannot fill a KID subset of {metrics.kid_subset_size}: lower metrics.kid_subset_size")
    if smallest <= metrics.neighbours:
        raise UserError(f"{whose} does not have {metrics.neighbours} neighbours: lower metrics.neighbours")


def quality_metrics(generated: FeatureStatistics, reference: FeatureStatistics, metrics: Metrics) -> dict[str, Any]:
    """fid, kid, inception_score, precision, recall and num_samples; seeds are fixed, so results are repeatable."""
    if generated.count != metrics.num_samples:
        raise ValueError(f"{generated.count} images were generated where metrics.num_samples is {metrics.num_samples}")
    check_sample_counts(metrics, len(reference.features))

    # Distances of kernels, neighbourhoods and classes, between features one by one.
    pair = (generated.features.double(), reference.features.double())
    kid = kid_features_to_metric(
        *pair,
        kid_subsets=metrics.kid_subsets,
        kid_subset_size=metrics.kid_subset_size,
        rng_seed=METRICS_SEED,
        verbose=False,
    )
    prc = prc_features_to_metric(*pair, prc_neighborhood=metrics.neighbours, save_cpu_ram=True, verbose=False)
    score = isc_features_to_metric(generated.logits, IS_SPLITS, shuffle=True, rng_seed=METRICS_SEED)

    # FID is between all images' means and covariances.
    return {
        "fid": frechet_distance(generated, reference),
        "kid": kid[KEY_METRIC_KID_MEAN],
        "inception_score": score[KEY_METRIC_ISC_MEAN],
        "precision": prc[KEY_METRIC_PRECISION],
        "recall": prc[KEY_METRIC_RECALL],
        "num_samples": generated.count,
    }


def evaluate_images(
    batches: Iterable[Tensor], extractor: Extractor, reference: Reference, metrics: Metrics
) -> dict[str, Any]:
    """The quality metrics of generated images, uint8 (B, C, H, W), batch by batch.

    Raises:
        UserError: too few images for a metric.
        FloatingPointError: features that are not finite.
    """
    check_sample_counts(metrics, len(reference.statistics.features))
    statistics = FeatureStatistics(extractor.dims)
    for pixels in batches:
        statistics.add(*extractor.features(pixels))
    return quality_metrics(statistics, reference.statistics, metrics)
