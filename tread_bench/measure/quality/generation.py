"""The metrics of generated images, while these come in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from tread_bench.core.config.metrics import settings_in_words
from tread_bench.core.describe.metrics import MetricOptions, Needs
from tread_bench.core.errors import UserError
from tread_bench.measure.quality.samples import ImageRecords, OpenMetric, too_few_of_a_class
from tread_bench.measure.quality.statistics import FeatureStatistics

if TYPE_CHECKING:
    from tread_bench.measure.quality.features import Extractor, Features
    from tread_bench.measure.quality.reference import Reference


def check_sample_counts(chosen: Iterable[MetricOptions], num_samples: int, reference_count: int) -> None:
    """Raises UserError where there are too few images for a metric: subsets are never made smaller silently.

    Args:
        reference_count: real images whose features can be read one by one; statistics alone are of enough.
    """
    for options in chosen:
        family = options.family
        least = family.min_samples(options)
        sets = [(num_samples, f"metrics.num_samples {num_samples}")]
        if Needs.FEATURES in family.needs_of_real:
            sets.append((reference_count, f"{reference_count} real images"))
        for count, whose in sets:
            if count < least:
                rule = f"too few for metric {options.name}, which needs {least} or more{settings_in_words(options)}"
                raise UserError(f"{whose}: {rule}")


def check_classes(chosen: Iterable[MetricOptions], num_samples: int, num_classes: int, reference: Reference) -> None:
    """Raises UserError where a class has too few images for a metric."""
    for options in chosen:
        least = options.family.min_per_class(options)
        if problem := too_few_of_a_class(least, _labels(num_samples, num_classes), reference.labels):
            raise UserError(f"metric {options.name}: {problem}; leave it out, or raise metrics.num_samples")


def _labels(count: int, num_classes: int) -> Tensor | None:
    """Image i is generated for class i mod `num_classes`."""
    return torch.arange(count) % num_classes if num_classes else None


class Seen(NamedTuple):
    """A batch of images, uint8 (B, C, H, W), or as many of them as are read, with the features of all."""

    pixels: Tensor
    features: Features


def reads(need: Needs, metrics: Iterable[OpenMetric]) -> bool:
    """Return whether a metric reads this of the generated images."""
    return any(need in metric.family.needs for metric in metrics)


def see(pixels: Tensor, extractor: Extractor, metrics: Sequence[OpenMetric]) -> Seen:
    """Return images with the features that the metrics read."""
    spatial = reads(Needs.SPATIAL, metrics) and extractor.spatial_dims is not None
    return Seen(pixels, extractor.features(pixels, spatial))


def evaluate_images(
    batches: Iterable[Seen],
    extractor: Extractor,
    reference: Reference,
    metrics: Sequence[OpenMetric],
    num_classes: int,
) -> dict[str, Any]:
    """Return the figures of generated images, batch by batch, and `num_samples`, their number.

    Image i was generated for class i mod `num_classes`; 0: without labels.

    Raises:
        FloatingPointError: features that are not finite.
    """
    # Features of all images, and the images themselves where a metric reads them.
    statistics = FeatureStatistics(extractor.dims)
    spatial = None
    if reads(Needs.SPATIAL, metrics) and extractor.spatial_dims is not None:
        spatial = FeatureStatistics(extractor.spatial_dims)
    kept: list[Tensor] = []
    for pixels, features in batches:
        statistics.add(features.pooled, features.logits)
        if spatial is not None:
            assert features.spatial is not None
            spatial.add(features.spatial, kept=slice(0))
        if reads(Needs.IMAGES, metrics):
            kept.append(pixels)

    # What each metric makes of them.
    generated = ImageRecords(statistics, partial(iter, kept), _labels(statistics.count, num_classes), spatial)
    figures: dict[str, Any] = {}
    for metric in metrics:
        figures |= metric.figures(generated, reference)
    return figures | {"num_samples": statistics.count}
