"""A set of images against a reference: metrics on features of several networks, by the code that evaluates cells."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tread_bench.core.describe.metrics import ExtractorOptions, MetricFamily, MetricOptions, Needs
from tread_bench.core.errors import UserError
from tread_bench.core.progress import ReportProgress
from tread_bench.core.stored.evaluations import EvaluatedFigure, EvaluatedNetwork, FitPoint
from tread_bench.measure.quality import fingerprint
from tread_bench.measure.quality.feature_store import features_of
from tread_bench.measure.quality.features import Extractor, open_extractor
from tread_bench.measure.quality.reference import BATCH, assembled, stored_statistics
from tread_bench.measure.quality.samples import ImageRecords, OpenMetric, lacking, too_few
from tread_bench.measure.quality.statistics import ROWS, Gaussian, Statistics
from tread_bench.measure.sets.reference import ReferenceSet
from tread_bench.measure.sets.samples import SampleSet
from tread_bench.measure.weights_folder import with_weights

KEPT = 50_000  # most reference images whose features are compared one by one
OF_SETS = frozenset(Needs) - {Needs.LABELS, Needs.CAPTIONS}  # what can be read of a set
_OF_NETWORK = frozenset({Needs.LOGITS, Needs.SPATIAL})  # needs that are outputs which not every network has


@dataclass(frozen=True, kw_only=True)
class SetRequest:
    """What is to be measured.

    Args:
        metrics: in the order of their rows.
        networks: whose features they are measured on, each of another name.
        weights: folder of published weights; None: the usual one.
        device: where features are computed.
        batch: images at a time; None: as many as pay on that device.
    """

    samples: SampleSet
    reference: ReferenceSet
    metrics: Sequence[MetricOptions]
    networks: Sequence[ExtractorOptions]
    weights: str | Path | None
    device: str
    batch: int | None = None


class Planned(NamedTuple):
    """A feature network, and the metrics that are measured on its features.

    `stored` are statistics of them that came with the reference.
    """

    network: ExtractorOptions
    extractor: Extractor
    stored: dict[Needs, Gaussian]
    metrics: list[MetricOptions]


def plan(request: SetRequest) -> tuple[list[Planned], list[str]]:
    """Return the metrics that can be measured on each network that gives what they read, as far as weights and headers
    tell, and why others cannot, in words.
    """
    # The shapes of samples and, where it is another one, of the reference, which comes first.
    samples, reference = request.samples, request.reference
    shapes = [samples.shape]
    if reference.images is not None and reference.images.shape != samples.shape:
        shapes.insert(0, reference.images.shape)

    # Each network with its weights, and the metrics that read it.
    planned = []
    reasons = []
    for chosen in request.networks:
        metrics = [one for one in request.metrics if one.family.needs & _OF_NETWORK <= chosen.family.outputs]
        try:
            network = with_weights(chosen, request.weights)
            resizes = network.family.resizes
            for _, height, width in shapes:
                if height != width and not resizes:
                    raise UserError(f"images of {width}x{height} pixels; this feature network takes square ones")
            for shape in shapes[-1:] if resizes else shapes:
                extractor = open_extractor(network, shape[:2])
            stored = stored_statistics(reference, network.name, extractor)
        except UserError as error:
            reasons.append(f"{chosen.name}: {error}")
            continue
        possible = []
        for metric in metrics:
            if reason := _reason(metric, stored, request):
                reasons.append(f"{metric.name} ({network.name}): {reason}")
            else:
                possible.append(metric)
        if possible:
            planned.append(Planned(network, extractor.to(request.device), stored, possible))
    return planned, reasons


def _reason(metric: MetricOptions, stored: Mapping[Needs, Gaussian], request: SetRequest) -> str:
    """Why a metric cannot be measured; empty if it can."""
    family, images = metric.family, request.reference.images
    of_reference = {*stored, *(OF_SETS if images is not None else ())}
    for one in Needs:
        if one in family.needs - OF_SETS:
            return lacking(one, is_real=False)
        if one in family.needs_of_real - of_reference:
            return lacking(one, is_real=True)
    count = None if images is None else images.count
    behind = dict.fromkeys((Needs.FEATURES, Needs.STATISTICS, Needs.SPATIAL), count)
    return too_few(metric, request.samples.count, behind | {need: one.count for need, one in stored.items()})


def evaluate_on(
    planned: Planned, request: SetRequest, report: ReportProgress
) -> tuple[EvaluatedNetwork, list[EvaluatedFigure]]:
    """Measure metrics on the features of a network, which are kept in the cache folder.

    Raises:
        UserError: images cannot be read, or a metric has no figure.
        FloatingPointError: features that are not finite.
    """
    samples, reference = request.samples, request.reference
    network, extractor, metrics = planned.network, planned.extractor, planned.metrics

    # The features of both sets.
    def seen(name: str, has_logits: bool, images: SampleSet, kept: NDArray[np.int64]) -> Statistics:
        work = f"features of {name} ({network.name} on {request.device})"
        batch = request.batch or extractor.batch

        def tell(done: int) -> None:
            report(work, done, images.count)

        return features_of(images, extractor, kept, batch, ROWS, extractor.device, has_logits, tell)

    stored = {need: one.to(extractor.device) for need, one in planned.stored.items()}
    read = frozenset[Needs]().union(*(metric.family.needs_of_real for metric in metrics))
    see_real = partial(seen, "reference", False)
    whole = "none" if reference.images is None else "all"
    real = assembled(reference, stored, KEPT, whole, see_real if read - stored.keys() else None)
    pooled, spatial = seen("samples", True, samples, np.arange(samples.count))
    generated = ImageRecords(pooled, partial(samples.batches, BATCH), spatial=spatial)

    # What figures depend on, and what to know of them.
    def details(of: Sequence[MetricOptions]) -> dict[str, Any]:
        return fingerprint.protocol_details(extractor, real, of, samples.count, samples.sampling)

    def warnings(family: MetricFamily) -> Iterator[str]:
        yield fingerprint.below_protocol([family], samples.count)
        if stored.keys() & family.needs_of_real:
            yield fingerprint.doubtful_weights(network)
        count = 0 if reference.images is None else reference.images.count
        if count > KEPT and Needs.FEATURES in family.needs_of_real:
            titles = " and ".join(figure.title for figure in family.figures)
            yield f"{titles} from {KEPT:,} of the {count:,} reference images, chosen at random"

    # The figures; in their words a Fréchet distance is called as the network's is.
    distance = network.family.distance_on(extractor.name)
    rows = []
    for done, metric in enumerate(metrics, 1):
        of_metric = fingerprint.protocol_fingerprint(**details([metric]))
        found = OpenMetric.of(metric).estimates(generated, real)
        for figure in metric.family.figures:
            estimate = found[figure.name]
            if not math.isfinite(estimate.value):
                rule = f"{figure.title} came out as {estimate.value}, since the features do not vary enough"
                raise UserError(f"feature network {network.name}: {rule}; name the others with --metrics")
            notes = [*warnings(metric.family), estimate.warning]
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
        report(f"metrics ({network.name})", done, len(metrics))

    # The network.
    about = EvaluatedNetwork(
        name=network.name,
        sha256=extractor.sha256,
        dims=extractor.dims,
        distance=distance,
        protocol=details(metrics),
    )
    return about, rows
