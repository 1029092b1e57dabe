"""The metrics of generated images, while these come in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from tread_bench.core.config.metrics import settings_in_words
from tread_bench.core.describe.metrics import MetricOptions, Needs
from tread_bench.core.errors import UserError
from tread_bench.measure.quality.samples import ImageRecords, OpenMetric, too_few
from tread_bench.measure.quality.statistics import summed

if TYPE_CHECKING:
    from tread_bench.measure.quality.features import Extractor, Features
    from tread_bench.measure.quality.reference import Reference


def check_counts(chosen: Iterable[MetricOptions], num_samples: int, reference: Reference) -> None:
    """Raise UserError where there are too few images for a metric: subsets are never made smaller silently."""
    for metric in chosen:
        if problem := too_few(metric, num_samples, {Needs.FEATURES: reference.num_kept}):
            setting = settings_in_words(metric)
            way_out = "leave it out, or change metrics.num_samples or the reference"
            raise UserError(f"metric {metric.name}: {problem}{setting}; {way_out}")


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
    reference: Reference,
    metrics: Sequence[OpenMetric],
    num_classes: int,
    captions: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Return the figures of generated images, batch by batch, and `num_samples`, their number.

    Image i was generated for class i mod `num_classes`; 0: without labels. With captions, image i was generated for the
    i-th.

    Raises:
        FloatingPointError: features that are not finite.
    """
    # Features of all images, and the images themselves where a metric reads them.
    kept: list[Tensor] = []

    def seen() -> Iterator[Features]:
        for pixels, features in batches:
            if reads(Needs.IMAGES, metrics):
                kept.append(pixels)
            yield features

    pooled, spatial = summed(seen())

    # What each metric makes of them.
    labels = torch.arange(pooled.count) % num_classes if num_classes else None
    generated = ImageRecords(pooled, partial(iter, kept), labels, spatial, captions=captions)
    figures: dict[str, Any] = {}
    for metric in metrics:
        figures |= metric.figures(generated, reference)
    return figures | {"num_samples": pooled.count}
