"""A set of images as metrics see it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol, TypeVar

from torch import Tensor

from tread_bench.core.describe.metrics import Estimate, MetricFamily, MetricOptions, Needs
from tread_bench.core.describe.plugins import named
from tread_bench.measure.quality.statistics import Moments, Statistics

T = TypeVar("T")
_LEAST_OF_COVARIANCE = 2  # images, since it is over n - 1


@dataclass(frozen=True, kw_only=True, eq=False)
class ImageRecords:
    """What is kept of a set of images; None: it is not kept, or there is none.

    Args:
        moments: mean and covariance of the features.
        features: (m, d) float32, those that are kept one by one.
        logits: (n, classes) float32.
        spatial: mean and covariance of features that keep their place in the image.
        batches: the images, uint8 (B, C, H, W), in order.
        labels: int64, one for each image, or of those whose features are kept where that is a part.
        captions: what each image was generated for.
    """

    moments: Moments | None = None
    features: Tensor | None = None
    logits: Tensor | None = None
    spatial: Moments | None = None
    batches: Callable[[], Iterator[Tensor]] | None = None
    labels: Tensor | None = None
    captions: Sequence[str] | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Reference:
    """Real images as one feature network sees them, once a metric reads more than the statistics that were stored.

    Args:
        sha256: of the real images, or of the file of their statistics.
        compared: which features are kept, in words, for the protocol.
        counts: what can be read of it, with the number of images behind it; None: the file does not say.
        see: returns what the network makes of the images; None: there are none.
        batches: the images, uint8 (B, C, H, W), in order.
        labels: int64, of those whose features are kept; None: there are none.
        stored: statistics as a file states them, which go before those of the images.
    """

    sha256: str
    compared: str
    counts: Mapping[Needs, int | None] = field(default_factory=dict)
    see: Callable[[], Statistics] | None = None
    batches: Callable[[], Iterator[Tensor]] | None = None
    labels: Tensor | None = None
    stored: Mapping[Needs, Moments] = field(default_factory=dict)
    logits = captions = None

    @cached_property
    def seen(self) -> Statistics | None:
        """Sums over the features of the images, which are computed here."""
        return self.see and self.see()

    @property
    def moments(self) -> Moments | None:
        """Mean and covariance of the features."""
        return self.stored.get(Needs.STATISTICS) or (self.seen and self.seen.pooled)

    @property
    def spatial(self) -> Moments | None:
        """Mean and covariance of features that keep their place in the image."""
        return self.stored.get(Needs.SPATIAL) or (self.seen and self.seen.spatial)

    @property
    def features(self) -> Tensor | None:
        """(m, d) float32, of those that are kept one by one."""
        return self.seen and self.seen.features

    @property
    def count(self) -> int | None:
        """Number of images that mean and covariance are of; None: the file does not say."""
        return self.counts.get(Needs.STATISTICS)

    def lacks(self, metric: MetricFamily) -> str:
        """Return, in words, what a metric reads of real images that are not there; empty if all is."""
        missing = metric.needs_of_real - self.counts.keys()
        return lacking(min(missing), is_real=True) if missing else ""


class Samples:
    """A set of images, generated or real, limited to what a metric's description needs.

    Logits exist for generated images. Of many reference images `features` holds a part: of a cell's at most 10,000, of
    those of `evaluate` at most 50,000. Mean and covariance are of all.

    Raises:
        LookupError: something is read that the description does not need, or that these images do not have.
    """

    def __init__(self, kept: ImageRecords | Reference, metric: MetricFamily, is_real: bool = False) -> None:
        self._kept = kept
        self._metric = metric
        self._is_real = is_real

    @property
    def features(self) -> Tensor:
        """(m, d) float32."""
        return self._read(self._kept.features, Needs.FEATURES)

    @property
    def mean(self) -> Tensor:
        """Of the features, (d,) float64."""
        return self._moments.mean

    @property
    def covariance(self) -> Tensor:
        """Of the features, (d, d) float64, unbiased (n - 1)."""
        return self._moments.covariance

    @property
    def count(self) -> int | None:
        """Number of images that mean and covariance are of; None: not known."""
        return self._moments.count

    @property
    def spatial(self) -> Moments:
        """Mean (s,) and covariance (s, s), float64, of features that keep their place in the image, and their count."""
        return self._read(self._kept.spatial, Needs.SPATIAL)

    @property
    def logits(self) -> Tensor:
        """(n, classes) float32."""
        return self._read(self._kept.logits, Needs.LOGITS)

    @property
    def labels(self) -> Tensor:
        """(m,) int64: the class that an image was generated for, or that a real one has, for each of `features`."""
        return self._read(self._kept.labels, Needs.LABELS)

    @property
    def captions(self) -> Sequence[str]:
        """The caption that each image was generated for, in order."""
        return self._read(self._kept.captions, Needs.CAPTIONS)

    def batches(self) -> Iterator[Tensor]:
        """Return the images, uint8 (B, C, H, W), in order, however many at a time."""
        return self._read(self._kept.batches, Needs.IMAGES)()

    @property
    def _moments(self) -> Moments:
        return self._read(self._kept.moments, Needs.STATISTICS, Needs.FEATURES)

    def _read(self, value: T | None, one: Needs, *stronger: Needs) -> T:
        """The value, if the description names `one`, or a need that includes it, and these images have it."""
        needs = self._metric.needs_of_real if self._is_real else self._metric.needs
        if not needs & {one, *stronger}:
            if self._is_real and one in self._metric.needs:
                raise LookupError(f"metric {self._metric.name}: there are no {one} of real images")
            raise LookupError(f"metric {self._metric.name} reads {one}, which its description must name in needs")
        if value is None:
            raise LookupError(f"metric {self._metric.name}: {lacking(one, self._is_real)}")
        return value


def lacking(one: Needs, is_real: bool) -> str:
    """In words, that a set of images does not have what a metric reads."""
    whose = "the reference" if is_real else "the samples"
    words = {
        Needs.STATISTICS: f"there are no mean and covariance of {whose} for this feature network",
        Needs.FEATURES: f"there are no images of {whose}, only statistics",
        Needs.LOGITS: "the feature network has no logits",
        Needs.SPATIAL: f"there are no spatial features of {whose}",
        Needs.IMAGES: f"the images of {whose} are not kept",
        Needs.LABELS: f"there are no labels of {whose}",
        Needs.CAPTIONS: f"there are no captions of {whose}",
    }
    return words[one]


class Metric(Protocol):
    """Object that a metric's builder returns."""

    def __call__(self, generated: Samples, real: Samples) -> Mapping[str, float | Estimate]:
        """Return its figures by name, each a number or an `Estimate` with its interval."""


@dataclass(frozen=True)
class OpenMetric:
    """A metric ready to use."""

    family: MetricFamily
    metric: Metric
    options: MetricOptions

    @classmethod
    def of(cls, options: MetricOptions) -> OpenMetric:
        return cls(options.family, named(options.family.builder)(options), options)

    def estimates(self, generated: ImageRecords, real: ImageRecords | Reference) -> dict[str, Estimate]:
        """Return the figures of its description, in that order, with their intervals.

        Raises:
            ValueError: it returns other figures.
            LookupError: it reads what these images do not have.
        """
        found = self.metric(Samples(generated, self.family), Samples(real, self.family, is_real=True))
        names = [figure.name for figure in self.family.figures]
        if set(found) != set(names):
            raise ValueError(f"metric {self.family.name} gave {sorted(found)}, its description says {sorted(names)}")
        values = {name: found[name] for name in names}
        return {name: one if isinstance(one, Estimate) else Estimate(value=float(one)) for name, one in values.items()}

    def figures(self, generated: ImageRecords, real: ImageRecords | Reference) -> dict[str, float]:
        """Return the figures of its description, in that order, as numbers alone. Raises as `estimates` does."""
        return {name: estimate.value for name, estimate in self.estimates(generated, real).items()}


def too_few(metric: MetricOptions, samples: int, reference: Mapping[Needs, int | None]) -> str:
    """Return, in words, which set has fewer images than a metric takes; empty if none has.

    Args:
        samples: how many there are.
        reference: number of images behind what can be read of it; None: not known.
    """
    family, least = metric.family, metric.family.min_samples(metric)
    counts = [(samples, "samples", least)]
    for need, count in reference.items():
        if need in family.needs_of_real and count is not None:
            counts.append((count, "reference images", least if need is Needs.FEATURES else _LEAST_OF_COVARIANCE))
    for count, whose, fewest in counts:
        if count < fewest:
            return f"{count:,} {whose}: it needs {fewest:,} or more"
    return ""
