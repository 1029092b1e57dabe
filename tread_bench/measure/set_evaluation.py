"""A set of images against a reference: metrics on features of several networks, by the code that evaluates cells."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch

from tread_bench.core.describe.extractors import ExtractorFamily, ExtractorOptions
from tread_bench.core.describe.metrics import Figure, MetricFamily, MetricOptions, Needs
from tread_bench.core.errors import UserError
from tread_bench.core.progress import ReportProgress
from tread_bench.core.stored.evaluations import EvaluatedFigure, EvaluatedNetwork, FitPoint
from tread_bench.data.check import message_of, messages_of
from tread_bench.measure.quality.feature_store import FeatureStore
from tread_bench.measure.quality.features import EFFECT_IMAGES, Extractor, device_effect, open_extractor
from tread_bench.measure.quality.fingerprint import (
    below_protocol,
    doubtful_weights,
    protocol_details,
    protocol_fingerprint,
    stated_by,
)
from tread_bench.measure.quality.reference import DRAWN_BY, Reference, drawn, stored_statistics
from tread_bench.measure.quality.samples import ImageRecords, OpenMetric, lacking, too_few
from tread_bench.measure.quality.statistics import Gaussian
from tread_bench.measure.quality.statistics_file import Statistics
from tread_bench.measure.sets.gaussians import spatial_name
from tread_bench.measure.sets.labels import array_sha256
from tread_bench.measure.sets.reference import ReferenceSet
from tread_bench.measure.sets.samples import SampleSet, matched

_OPENED = "tread_bench.measure.quality.features:extractor_problems"
_READ = 250  # images at a time, for metrics that read them
KEPT = 50_000  # most reference images whose features are compared one by one, but for metrics that read their classes
_ONE_BY_ONE = frozenset({Needs.FEATURES, Needs.LOGITS})  # needs that sums do not meet
OF_NETWORK = frozenset({Needs.LOGITS, Needs.SPATIAL})  # needs that are outputs which not every network has


@dataclass(frozen=True)
class NetworkChoice:
    """A feature network that was requested; `refused` says why it cannot be opened.

    `opened` is what its builder calls it; empty: it has not been opened yet.
    """

    options: ExtractorOptions
    refused: str = ""
    opened: str = ""

    @property
    def family(self) -> ExtractorFamily:
        return self.options.family

    @property
    def name(self) -> str:
        return self.options.name

    @property
    def distance(self) -> str:
        """Title of the Fréchet distance of its features."""
        return self.family.distance_on(self.opened or self.family.name)


@dataclass(frozen=True, kw_only=True)
class SetRequest:
    """What is to be measured.

    Args:
        metrics: in the order of their rows.
        networks: whose features they are measured on, each of another name.
        device: where features are computed.
        batch: images at a time; None: as many as pay on that device.
        sampling: what the protocol says of how the samples were made; empty: nothing is known.
    """

    samples: SampleSet
    reference: ReferenceSet
    metrics: Sequence[MetricOptions]
    networks: Sequence[NetworkChoice]
    device: str
    batch: int | None = None
    sampling: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def matched(self) -> tuple[SampleSet, SampleSet | None]:
        """Samples and reference images, under one numbering and the same names where they have the same classes."""
        images = self.reference.images
        if images is not None:
            with suppress(UserError):  # metrics that compare classes are refused
                return matched(self.samples, images)
        return self.samples, images


def can_measure(metric: MetricFamily, network: ExtractorFamily) -> bool:
    """Return whether a metric reads outputs of a network, and this one gives them."""
    return metric.needs_network and (metric.needs | metric.needs_of_real) & OF_NETWORK <= network.outputs


def network_problem(options: ExtractorOptions, samples: SampleSet, reference: ReferenceSet) -> str:
    """Return why a network cannot be used for these images, in words; empty if it can."""
    family = options.family
    files = [file for _, file in family.files(options)]
    problems: list[str] = []
    for channels, height, width in dict.fromkeys(one.shape for one in (samples, reference.images) if one is not None):
        if height != width and not family.resizes:
            problems.append(f"images of {width}x{height} pixels; feature network {family.name} takes square ones")
        else:
            problems += messages_of(_OPENED, (options, (channels, height)), files)
    return "; ".join(dict.fromkeys(problems))


def foreseen_refusals(request: SetRequest) -> list[tuple[MetricOptions, NetworkChoice | None, str]]:
    """Return each metric on each network that gives what it reads, with why it cannot be measured, as far as headers
    tell; empty if nothing is in the way. A metric of images alone stands with None.
    """
    found: list[tuple[MetricOptions, NetworkChoice | None, str]] = []
    for network in request.networks:
        for metric in request.metrics:
            if can_measure(metric.family, network.family):
                found.append((metric, network, network.refused or _lacking(metric, network, request)))
    alone = (metric for metric in request.metrics if not metric.family.needs_network)
    return found + [(metric, None, _lacking(metric, None, request)) for metric in alone]


def _lacking(metric: MetricOptions, network: NetworkChoice | None, request: SetRequest) -> str:
    """What the sets do not have; empty if nothing."""
    samples, reference, family = request.samples, request.reference, metric.family

    # What it reads.
    of_samples = needs_met(samples)
    of_reference = needs_met(reference.images) if reference.images is not None else set()
    stored = {Needs.STATISTICS: network.name, Needs.SPATIAL: spatial_name(network.name)} if network else {}
    of_reference |= {need for need, name in stored.items() if name in reference.stored}
    for one in Needs:
        if one in family.needs - of_samples:
            return lacking(one, is_real=False)
        if one in family.needs_of_real - of_reference:
            return lacking(one, is_real=True)
    if Needs.LABELS in family.needs & family.needs_of_real and reference.images is not None:
        for message in message_of(matched, samples, reference.images):
            return message

    # How many images it reads.
    images = None if reference.images is None else reference.images.count
    behind: dict[Needs, int | None] = dict.fromkeys((Needs.FEATURES, Needs.STATISTICS, Needs.SPATIAL), images)
    for need, name in stored.items():
        if name in reference.stored:
            behind[need] = reference.stored[name].count
    return too_few(metric, samples.count, behind)


def _records(images: SampleSet | None) -> ImageRecords:
    """What metrics read of a set without any network; None: of statistics alone."""
    if images is None:
        return ImageRecords(None)
    labels = None if images.labels is None else torch.from_numpy(images.labels)
    return ImageRecords(None, partial(images.batches, _READ), labels)


def needs_met(images: SampleSet) -> set[Needs]:
    """Return what can be read of a set that has images."""
    absent = {Needs.CAPTIONS} if images.labels is not None else {Needs.CAPTIONS, Needs.LABELS}
    return set(Needs) - absent


def evaluate_sets(request: SetRequest, report: ReportProgress) -> tuple[list[EvaluatedNetwork], list[EvaluatedFigure]]:
    """Measure every metric on the features of every network that gives what it reads.

    Features are kept in the cache folder, so an evaluation that was interrupted resumes.

    Raises:
        UserError: images cannot be read, features cannot be stored, or stored statistics are of another network.
    """
    networks: list[EvaluatedNetwork] = []
    rows: list[EvaluatedFigure] = []
    refusals = foreseen_refusals(request)
    for network in request.networks:
        of_network = {metric.name: (metric, reason) for metric, one, reason in refusals if one is network}
        possible = [metric for metric, reason in of_network.values() if not reason]
        measured: dict[str, list[EvaluatedFigure]] = {}
        if possible:
            try:
                about, measured = _on_network(network, possible, request, report)
                networks += [about] if about is not None else []
            except FloatingPointError as error:
                of_network |= {metric.name: (metric, str(error)) for metric in possible}
        for name, (metric, reason) in of_network.items():
            rows += measured.get(name) or refused_rows(metric.family, network, reason)
    for metric, one, reason in refusals:
        if one is None:
            rows += refused_rows(metric.family, None, reason) if reason else _on_images(metric, request, report)
    return networks, rows


def _on_images(metric: MetricOptions, request: SetRequest, report: ReportProgress) -> list[EvaluatedFigure]:
    """The rows of a metric that reads images and labels alone."""
    report(f"metric {metric.name}", 0, 1)
    fingerprint = protocol_fingerprint(**images_protocol(request, [metric]))
    fewer = below_protocol([metric.family], request.samples.count)
    generated, real = map(_records, request.matched)
    rows = _rows(OpenMetric.of(metric), None, generated, real, fingerprint, [fewer])
    report(f"metric {metric.name}", 1, 1)
    return rows


def images_protocol(request: SetRequest, metrics: Sequence[MetricOptions]) -> dict[str, Any]:
    """Return all that figures of metrics of images alone depend on besides the samples; empty without such metrics."""
    alone = [metric for metric in metrics if not metric.family.needs_network]
    if not alone:
        return {}
    samples, reference = request.samples, request.reference
    return {
        "reference_sha256": reference.sha256,
        "reference_images": None if reference.images is None else reference.images.count,
        "num_samples": samples.count,
        **request.sampling,
        **_classes_in_protocol(request, alone),
        **stated_by(alone),
    }


def _classes_in_protocol(request: SetRequest, metrics: Sequence[MetricOptions]) -> dict[str, str]:
    """What the protocol says of classes that metrics read: how many samples have which, and those of the reference."""
    samples, images = request.matched
    found = {}
    if samples.labels is not None and any(Needs.LABELS in metric.family.needs for metric in metrics):
        found["classes_sha256"] = array_sha256(np.sort(samples.labels))
    if images is not None and any(Needs.LABELS in metric.family.needs_of_real for metric in metrics):
        found["reference_labels_sha256"] = images.labels_sha256
    return {name: sha256 for name, sha256 in found.items() if sha256}


def refused_rows(metric: MetricFamily, network: NetworkChoice | None, reason: str) -> list[EvaluatedFigure]:
    """Return the figures of a metric that cannot be measured."""
    return [EvaluatedFigure(**_about(one, metric, network), value=None, refused=reason) for one in metric.figures]


def _on_network(
    network: NetworkChoice, metrics: Sequence[MetricOptions], request: SetRequest, report: ReportProgress
) -> tuple[EvaluatedNetwork | None, dict[str, list[EvaluatedFigure]]]:
    """The network, and the rows of each metric on its features; None: statistics of another one refuse all metrics."""
    # What can be measured with the statistics that came with the reference.
    samples = request.samples
    channels, height, _ = samples.shape
    extractor = open_extractor(network.options, (channels, height)).to(request.device)
    network = replace(network, opened=extractor.name)
    stored, wrong = stored_statistics(request.reference, network.name, extractor)
    opened = []
    rows = {}
    for metric in metrics:
        if reasons := [reason for need, reason in wrong.items() if need in metric.family.needs_of_real]:
            rows[metric.name] = refused_rows(metric.family, network, reasons[0])
        else:
            opened.append(OpenMetric.of(metric))
    if not opened:
        return None, rows

    # The features of both sets.
    seen = _Seen(extractor, network.name, request, report)
    reference = seen.reference(stored, frozenset[Needs]().union(*(metric.family.needs_of_real for metric in opened)))
    generated = seen.samples(frozenset[Needs]().union(*(metric.family.needs for metric in opened)))
    of_some = _limited(reference)

    # The figures.
    def details(*of: MetricOptions) -> dict[str, Any]:
        made = {**request.sampling, **_classes_in_protocol(request, of)}
        return protocol_details(extractor, reference, of, samples.count, made, _compared(request.reference))

    for done, one in enumerate(opened):
        report(f"metrics ({network.name})", done, len(opened))
        fingerprint = protocol_fingerprint(**details(one.options))
        real = reference if Needs.LABELS in one.family.needs_of_real else of_some
        warnings = [*_warnings(one.family, network, request, reference)]
        rows[one.family.name] = _rows(one, network, generated, real, fingerprint, warnings, extractor.sha256)
    report(f"metrics ({network.name})", len(opened), len(opened))

    # The network.
    about = EvaluatedNetwork(
        name=network.name,
        sha256=extractor.sha256,
        dims=extractor.dims,
        distance=network.distance,
        protocol=details(*metrics),
        device_effect=device_effect(extractor, samples.picture(EFFECT_IMAGES)),
    )
    return about, rows


def _limited(real: ImageRecords) -> ImageRecords:
    """With the features of at most 50,000 images, chosen at random: every n-th would leave out classes that follow
    each other in turn.
    """
    statistics = real.statistics
    if statistics is None or statistics.num_kept <= KEPT:
        return real
    chosen = torch.from_numpy(drawn(statistics.num_kept, KEPT))
    limited = statistics.keeping(statistics.features[chosen].to(statistics.total.device), None)
    return replace(real, statistics=limited, labels=None if real.labels is None else real.labels[chosen])


def _compared(reference: ReferenceSet) -> str:
    """Which reference images are compared one by one, for the protocol."""
    if reference.images is None:
        return "none"
    if reference.images.count <= KEPT:
        return "all"
    return f"{KEPT} for KID, precision and recall, drawn by seed {DRAWN_BY}; all for FID per class"


def _warnings(metric: MetricFamily, network: NetworkChoice, request: SetRequest, reference: Reference) -> Iterator[str]:
    """What to know of a metric's figures."""
    # The numbers of images.
    if warning := below_protocol([metric], request.samples.count):
        yield warning
    reads, images = metric.needs_of_real, request.reference.images
    if images is not None and images.count > KEPT and Needs.FEATURES in reads and Needs.LABELS not in reads:
        titles = " and ".join(figure.title for figure in metric.figures)
        yield f"{titles} from {KEPT:,} of the {images.count:,} reference images, chosen at random"

    # The weights behind statistics that came with the reference.
    if reads & reference.stated and (warning := doubtful_weights(network.options)):
        yield warning


def _rows(
    metric: OpenMetric,
    network: NetworkChoice | None,
    generated: ImageRecords,
    real: ImageRecords,
    fingerprint: str,
    warnings: Sequence[str],
    network_sha256: str = "",
) -> list[EvaluatedFigure]:
    """The figures of a metric, with warnings that are not empty, or why it cannot be measured."""
    # Its figures, where there are any.
    family = metric.family
    try:
        found = metric.estimates(generated, real)
    except UserError as error:
        return refused_rows(family, network, str(error))
    if wrong := [estimate.value for estimate in found.values() if not math.isfinite(estimate.value)]:
        reason = f"it came out as {wrong[0]}, since the features do not vary enough"
        return refused_rows(family, network, reason)

    # A row of each.
    rows = []
    for figure in family.figures:
        estimate = found[figure.name]
        row = EvaluatedFigure(
            **_about(figure, family, network),
            network_sha256=network_sha256,
            fingerprint=fingerprint,
            value=estimate.value,
            low=estimate.low,
            high=estimate.high,
            method=estimate.method,
            points=[FitPoint(images=images, value=value) for images, value in estimate.points],
            warnings=[_titled(one, network) for one in (*warnings, estimate.warning) if one],
        )
        rows.append(row)
    return rows


def _about(figure: Figure, metric: MetricFamily, network: NetworkChoice | None) -> dict[str, Any]:
    """What a row of the document says of every figure."""
    return {
        "metric": metric.name,
        "figure": figure.name,
        "title": _titled(figure.title, network),
        "network": "" if network is None else network.name,
        "lower_is_better": figure.lower_is_better,
    }


def _titled(text: str, network: NetworkChoice | None) -> str:
    """A text in which the Fréchet distance is called as the network's is."""
    return text if network is None else text.replace("FID", network.distance)


@dataclass(frozen=True)
class _Seen:
    """The two sets as one network sees them."""

    extractor: Extractor
    network: str
    request: SetRequest
    report: ReportProgress

    def samples(self, needs: frozenset[Needs]) -> ImageRecords:
        """Return the samples, with what is read of them."""
        samples, _ = self.request.matched
        statistics, spatial = self._statistics(samples, "samples", needs)
        return replace(_records(samples), statistics=statistics, spatial=spatial)

    def reference(self, stored: Mapping[Needs, Gaussian], needs: frozenset[Needs]) -> Reference:
        """Return the reference, with what is read of it; statistics that came with it go before those of its images."""
        # What came with it.
        _, images = self.request.matched
        there = {need: one.to(self.extractor.device) for need, one in stored.items()}
        stated = frozenset(there)

        # What is read of its images.
        statistics = own_spatial = None
        if images is not None and needs - stated:
            statistics, own_spatial = self._statistics(images, "reference", needs - stated, KEPT)
        of_images = _records(images)
        return Reference(
            statistics,
            of_images.batches,
            of_images.labels,
            there.get(Needs.SPATIAL, own_spatial),
            there.get(Needs.STATISTICS),
            sha256=self.request.reference.sha256,
            stated=stated,
        )

    def _statistics(self, images: SampleSet, name: str, needs: Iterable[Needs], most: int | None = None) -> Statistics:
        """Statistics of pooled features, with these themselves where they are read one by one, and of spatial ones
        where they are read.

        Features of more than `most` images stay mapped from their file instead of going to the device.
        """
        # The features, where they are read one by one.
        store = FeatureStore()
        spatial, batch = Needs.SPATIAL in needs, self.request.batch
        work = f"features of {name} ({self.network} on {self.request.device})"

        def progress(done: int) -> None:
            self.report(work, done, images.count)

        if not _ONE_BY_ONE & set(needs):
            return store.statistics(images, self.extractor, spatial=spatial, batch=batch, progress=progress)
        found = store.features(images, self.extractor, spatial=spatial, batch=batch, progress=progress)
        kept = found.pooled if most is not None and images.count > most else found.pooled.to(self.extractor.device)

        # Their sums.
        sums = store.statistics(images, self.extractor, spatial=spatial, batch=batch, features=found)
        return Statistics(sums.pooled.keeping(kept, found.logits), sums.spatial)
