"""A set of images against a reference: metrics on features of several networks, by the code that evaluates cells."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tread_bench.core.describe.metrics import ExtractorOptions, MetricFamily, MetricOptions, Needs
from tread_bench.core.errors import UserError
from tread_bench.core.progress import ReportProgress
from tread_bench.core.stored.evaluations import EvaluatedFigure, EvaluatedNetwork, FitPoint
from tread_bench.data.source import RealImages
from tread_bench.measure.quality import fingerprint
from tread_bench.measure.quality.feature_store import features_of
from tread_bench.measure.quality.features import open_extractor
from tread_bench.measure.quality.reference import BATCH, reference_of_set
from tread_bench.measure.quality.samples import ImageRecords, OpenMetric, lacking, too_few
from tread_bench.measure.quality.statistics import ROWS, Statistics
from tread_bench.measure.sets.reference import ReferenceSet
from tread_bench.measure.sets.samples import SampleSet
from tread_bench.measure.weights_folder import with_weights

KEPT = 50_000  # most reference images whose features are compared one by one
OF_SETS = frozenset(Needs) - {Needs.LABELS, Needs.CAPTIONS}  # what can be read of a set


class SetEvaluator:
    """Metrics on the features of one network. It has opened it, and looked at headers alone, until it is called.

    `metrics` are those that can be measured, `reasons` why others cannot, in words.

    Args:
        chosen: the network.
        metrics: in the order of their rows.
        weights: folder of published weights; None: the usual one.
        device: where features are computed.
        batch: images at a time; None: as many as pay on that device.
        report: progress; features of images are kept in the cache folder.

    Raises:
        UserError: its weights are not there, it does not take these images, or the statistics of the reference are of
            another one.
    """

    def __init__(
        self,
        chosen: ExtractorOptions,
        samples: SampleSet,
        reference: ReferenceSet,
        metrics: Sequence[MetricOptions],
        weights: str | Path | None,
        device: str,
        batch: int | None,
        report: ReportProgress,
    ) -> None:
        # The network takes the images of both sets.
        self.network = with_weights(chosen, weights)
        self.samples, self.images, self.batch, self.report = samples, reference.images, batch, report
        shapes = [samples.shape]
        if reference.images is not None and reference.images.shape != samples.shape:
            shapes.insert(0, reference.images.shape)
        resizes = chosen.family.resizes
        for _, height, width in shapes:
            if height != width and not resizes:
                raise UserError(f"images of {width}x{height} pixels; this feature network takes square ones")
        for shape in shapes[-1:] if resizes else shapes:
            self.extractor = open_extractor(self.network, shape[:2]).to(device)

        # The reference as it sees it, and the metrics that read what both sets have.
        see = partial(self._seen, "reference", False)
        compared = "none" if reference.images is None else "all"
        self.reference = reference_of_set(reference, self.extractor, chosen.name, see, KEPT, compared, device)
        self.metrics: list[MetricOptions] = []
        self.reasons: list[str] = []
        for metric in metrics:
            family = metric.family
            if not chosen.family.lacks(family):
                reason = self.reference.lacks(family) or too_few(metric, samples.count, self.reference.counts)
                if unread := family.needs - OF_SETS:
                    reason = lacking(min(unread), is_real=False)
                if reason:
                    self.reasons.append(f"{metric.name} ({chosen.name}): {reason}")
                else:
                    self.metrics.append(metric)

    def _seen(self, name: str, has_logits: bool, images: RealImages, kept: NDArray[np.int64]) -> Statistics:
        work = f"features of {name} ({self.network.name} on {self.extractor.device})"
        batch, device = self.batch or self.extractor.batch, self.extractor.device

        def tell(done: int) -> None:
            self.report(work, done, len(images))

        return features_of(images, self.extractor, kept, batch, ROWS, device, has_logits, tell)

    def __call__(self) -> tuple[EvaluatedNetwork, list[EvaluatedFigure]]:
        """Measure the metrics.

        Raises:
            UserError: images cannot be read, or a metric has no figure.
            FloatingPointError: features that are not finite.
        """
        samples, network, extractor = self.samples, self.network, self.extractor
        seen = self._seen("samples", True, samples, np.arange(samples.count))
        generated = ImageRecords(
            moments=seen.pooled,
            features=seen.features,
            logits=seen.logits,
            spatial=seen.spatial,
            batches=partial(samples.batches, BATCH),
        )

        # The figures; in their words a Fréchet distance is called as the network's is.
        distance = network.family.distance_on(extractor.name)
        rows = []
        for done, metric in enumerate(self.metrics, 1):
            of_metric = fingerprint.protocol_fingerprint(**self._details([metric]))
            found = OpenMetric.of(metric).estimates(generated, self.reference)
            for figure in metric.family.figures:
                estimate = found[figure.name]
                if not math.isfinite(estimate.value):
                    rule = f"{figure.title} came out as {estimate.value}, since the features do not vary enough"
                    raise UserError(f"feature network {network.name}: {rule}; name the others with --metrics")
                notes = [*self._warnings(metric.family), estimate.warning]
                row = EvaluatedFigure(
                    network=network.name,
                    network_sha256=extractor.sha256,
                    metric=metric.name,
                    figure=figure.name,
                    title=figure.title.replace("FID", distance),
                    lower_is_better=figure.lower_is_better,
                    value=estimate.value,
                    low=estimate.low,
                    high=estimate.high,
                    method=estimate.method,
                    points=[FitPoint(images=images, value=value) for images, value in estimate.points],
                    fingerprint=of_metric,
                    warnings=[note.replace("FID", distance) for note in notes if note],
                )
                rows.append(row)
            self.report(f"metrics ({network.name})", done, len(self.metrics))

        # The network.
        about = EvaluatedNetwork(
            name=network.name,
            sha256=extractor.sha256,
            dims=extractor.dims,
            distance=distance,
            protocol=self._details(self.metrics),
        )
        return about, rows

    def _details(self, of: Sequence[MetricOptions]) -> dict[str, Any]:
        """What figures of these metrics depend on."""
        samples = self.samples
        return fingerprint.protocol_details(self.extractor, self.reference, of, samples.count, samples.sampling)

    def _warnings(self, family: MetricFamily) -> Iterator[str]:
        """What to know of a metric's figures; empty for nothing."""
        yield fingerprint.below_protocol([family], self.samples.count)
        if self.reference.stored.keys() & family.needs_of_real:
            yield fingerprint.doubtful_weights(self.network)
        if self.images is not None and self.images.count > KEPT and Needs.FEATURES in family.needs_of_real:
            titles = " and ".join(figure.title for figure in family.figures)
            yield f"{titles} from {KEPT:,} of the {self.images.count:,} reference images, chosen at random"
