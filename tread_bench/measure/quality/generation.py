"""The metrics of generated images, while these come in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tread_bench.core.config.metrics import settings_in_words
from tread_bench.core.errors import UserError
from tread_bench.core.metrics import MetricOptions, Needs
from tread_bench.measure.quality.samples import ImageRecords, OpenMetric
from tread_bench.measure.quality.statistics import FeatureStatistics

if TYPE_CHECKING:
    from tread_bench.data.source import DataSource
    from tread_bench.measure.quality.features import Extractor
    from tread_bench.measure.quality.reference import Reference

_REAL_BATCH = 250


def check_sample_counts(chosen: Iterable[MetricOptions], num_samples: int, reference_count: int) -> None:
    """Raises UserError where there are too few images for a metric: subsets are never made smaller silently."""
    sets = ((num_samples, f"metrics.num_samples {num_samples}"), (reference_count, f"{reference_count} real images"))
    for options in chosen:
        least = options.family.min_samples(options)
        for count, whose in sets:
            if count < least:
                rule = f"too few for metric {options.name}, which needs {least} or more{settings_in_words(options)}"
                raise UserError(f"{whose}: {rule}")


def evaluate_images(
    batches: Iterable[Tensor],
    extractor: Extractor,
    reference: Reference,
    metrics: Sequence[OpenMetric],
    data: DataSource,
) -> dict[str, Any]:
    """The figures of generated images, uint8 (B, C, H, W), batch by batch, and `num_samples`, their number.

    Image i was generated for class i mod `data.num_classes`.

    Raises:
        FloatingPointError: features that are not finite.
    """
    # Features of all images, and the images themselves where a metric reads them.
    needs = frozenset[Needs]().union(*(metric.family.needs for metric in metrics))
    statistics = FeatureStatistics(extractor.dims)
    kept: list[Tensor] = []
    for pixels in batches:
        features = extractor.features(pixels)
        statistics.add(features.pooled, features.logits)
        if Needs.IMAGES in needs:
            kept.append(pixels)

    # What each metric makes of them.
    labels = torch.arange(statistics.count) % data.num_classes if data.num_classes else None
    generated = ImageRecords(statistics, partial(iter, kept), labels)
    real = ImageRecords(reference.statistics, partial(data.reference.batches, _REAL_BATCH))
    figures: dict[str, Any] = {}
    for metric in metrics:
        figures |= metric.figures(generated, real)
    return figures | {"num_samples": statistics.count}
