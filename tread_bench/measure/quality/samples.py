"""A set of images as metrics see it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from tread_bench.core.metrics import MetricFamily, MetricOptions, Needs
from tread_bench.core.plugins import named
from tread_bench.measure.quality.statistics import FeatureStatistics


@dataclass(frozen=True)
class ImageRecords:
    """What is kept of a set of images, batch by batch.

    Args:
        statistics: of features, and the features and logits themselves.
        batches: the images, uint8 (B, C, H, W), in order; None: not kept.
        labels: (n,) int64; None: there are none.
    """

    statistics: FeatureStatistics
    batches: Callable[[], Iterator[Tensor]] | None = None
    labels: Tensor | None = None


class Samples:
    """A set of images, generated or real, limited to what a metric's description needs.

    Logits and labels exist for generated images. If the reference has more than 10,000 images, `features` holds every
    n-th; mean and covariance are of all images.

    Raises:
        LookupError: something is read that the description does not need, or that these images do not have.
    """

    def __init__(self, kept: ImageRecords, metric: MetricFamily) -> None:
        self._kept = kept
        self._metric = metric

    @property
    def features(self) -> Tensor:
        """(m, d) float32."""
        return self._needed(Needs.FEATURES).statistics.features

    @property
    def mean(self) -> Tensor:
        """Of the features, (d,) float64."""
        return self._needed(Needs.FEATURES).statistics.mean

    @property
    def covariance(self) -> Tensor:
        """Of the features, (d, d) float64, unbiased (n - 1)."""
        return self._needed(Needs.FEATURES).statistics.covariance

    @property
    def logits(self) -> Tensor:
        """(n, classes) float32."""
        kept = self._needed(Needs.LOGITS).statistics
        if not kept.has_logits:
            raise LookupError(f"metric {self._metric.name}: there are no logits of real images")
        return kept.logits

    @property
    def labels(self) -> Tensor:
        """(n,) int64, that the images were generated for."""
        labels = self._needed(Needs.LABELS).labels
        if labels is None:
            raise LookupError(f"metric {self._metric.name}: there are no labels of real images")
        return labels

    def batches(self) -> Iterator[Tensor]:
        """The images, uint8 (B, C, H, W), in order, however many at a time."""
        batches = self._needed(Needs.IMAGES).batches
        assert batches is not None, "images are kept where a metric needs them"
        return batches()

    def _needed(self, one: Needs) -> ImageRecords:
        if one not in self._metric.needs:
            raise LookupError(f"metric {self._metric.name} reads {one}, which its description must name in needs")
        return self._kept


class Metric(Protocol):
    """Object that a metric's builder returns."""

    def __call__(self, generated: Samples, real: Samples) -> Mapping[str, float]:
        """Return its figures by name."""


@dataclass(frozen=True)
class OpenMetric:
    """A metric ready to use."""

    family: MetricFamily
    metric: Metric

    @classmethod
    def of(cls, options: MetricOptions) -> OpenMetric:
        return cls(options.family, named(options.family.builder)(options))

    def figures(self, generated: ImageRecords, real: ImageRecords) -> dict[str, float]:
        """Return the figures of its description, in that order. Raises ValueError if it returns others."""
        found = self.metric(Samples(generated, self.family), Samples(real, self.family))
        names = [figure.name for figure in self.family.figures]
        if set(found) != set(names):
            raise ValueError(f"metric {self.family.name} gave {sorted(found)}, its description says {sorted(names)}")
        return {name: float(found[name]) for name in names}
