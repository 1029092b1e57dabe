"""What a quality figure depends on besides the model: rows whose fingerprints differ are never ranked together."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tread_bench.core.config.metrics import standard_metrics
from tread_bench.core.describe.metrics import Needs
from tread_bench.core.stored.data_files import content_sha256
from tread_bench.data.encode.vae import CHUNK
from tread_bench.measure.weights_folder import is_as_published

if TYPE_CHECKING:
    from tread_bench.core.config.suite import Cell
    from tread_bench.core.describe.data_sources import Factor
    from tread_bench.core.describe.metrics import ExtractorOptions, MetricFamily, MetricOptions
    from tread_bench.measure.quality.decoder import Decoder
    from tread_bench.measure.quality.features import Extractor
    from tread_bench.measure.quality.samples import Reference

GUIDANCE = {"guidance", "guidance_scale"}
_DEFINITION = "torch-fidelity 0.4 formulas on float64 statistics"


def protocol_fingerprint(**details: Any) -> str:
    """12 hexadecimal digits of the SHA-256 over the details' canonical JSON."""
    canonical = json.dumps(details, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()[:12]


def protocol(
    cell: Cell, extractor: Extractor, reference: Reference, decoder: Decoder | None = None
) -> tuple[str, dict[str, Any]]:
    """Return the fingerprint of a cell's figures, and its details for the page.

    Guidance is not part of it: samples are compared across guidance. The details also hold a `caution` where there are
    few samples or statistics may be of other weights, and what is `not_measured`, with its reason; they follow from the
    rest and are not part of it either.
    """
    # What is measured.
    metrics = cell.metrics
    lacking = metrics.not_measured(cell.data)
    measured: list[MetricOptions] = []
    not_measured: dict[str, str] = {}
    for metric in metrics.of_samples:
        if reason := lacking.get(metric.name) or reference.lacks(metric.family):
            not_measured |= {figure.title: reason for figure in metric.family.figures}
        else:
            measured.append(metric)

    # What it depends on, and what to know of it.
    generated = how_generated(cell, decoder)
    details = protocol_details(extractor, reference, measured, metrics.num_samples, generated)
    fingerprint = protocol_fingerprint(**details)
    cautions = []
    if metrics.num_samples < 2 * extractor.dims:
        few = f"{metrics.num_samples} samples of {extractor.dims} features, fewer than {2 * extractor.dims}"
        cautions.append(f"FID from {few}: biased upwards")
    if metrics.protocol == "adm":
        cautions.append(below_protocol([metric.family for metric in measured], metrics.num_samples))
    if Needs.STATISTICS in reference.stored:
        cautions.append(doubtful_weights(metrics.network(cell.data)))
    if any(cautions):
        details["caution"] = "; ".join(filter(None, cautions))
    if not_measured:
        details["not_measured"] = not_measured
    return fingerprint, details


def how_generated(cell: Cell, decoder: Decoder | None) -> dict[str, Any]:
    """Return all that samples of a cell depend on, but for the network and its guidance, as `protocol_details` takes
    it.
    """
    sampling = cell.sampling.model_dump(mode="json", exclude=GUIDANCE)
    labels = "balanced: sample index mod num_classes" if cell.data.num_classes else "none"
    if cell.data.text_shape is not None:
        labels = "captions: one of each held-out sample, in order"
    return {
        "labels": labels,
        "ema": cell.metrics.ema,
        "pixels": "uint8, round((x + 1) * 127.5)",
        **(_decoding(decoder) if decoder else {}),
        **{f"sampling_{key}": value for key, value in sampling.items()},
    }


def protocol_details(
    extractor: Extractor,
    reference: Reference,
    measured: Sequence[MetricOptions],
    num_samples: int,
    samples: Mapping[str, Any],
) -> dict[str, Any]:
    """Return all that figures of quality depend on besides the images, for `protocol_fingerprint`.

    Args:
        measured: metrics with their settings.
        num_samples: number of samples.
        samples: what is known of how they were made; empty: nothing.
    """
    # What metrics say of themselves: those of a standard cell under their names, others together.
    stated: dict[str, Any] = {}
    further = {}
    for metric in measured:
        text = metric.family.protocol(metric)
        if metric.family not in standard_metrics():
            further[metric.name] = text
        elif text:
            stated[metric.name] = text

    # The version of the formulas counts up when a figure would change by more than linear algebra may (1e-9, relative).
    # FID by symmetric matrices, 2, differs from its predecessor where a covariance is singular, by up to 2e-7.
    fewest = num_samples if reference.count is None else min(num_samples, reference.count)
    version = 2 if fewest <= extractor.dims else 1
    details = {
        "definition": f"{_DEFINITION}, {version}",
        "feature_network": extractor.name,
        "feature_network_sha256": extractor.sha256,
        "feature_dims": extractor.dims,
        "reference_sha256": reference.sha256,
        "reference_images": reference.count,
        "reference_features": reference.compared,
        "num_samples": num_samples,
        **samples,
        **stated,
    }
    if further:
        details["also"] = further
    if extractor.settings:
        details["feature_network_settings"] = ", ".join(f"{key}: {value}" for key, value in extractor.settings.items())
    return details


def _decoding(decoder: Decoder) -> dict[str, Any]:
    # What not every decoding has is only stated where it is there.
    details = {"latent_scale": _stated(decoder.decoding.scale, decoder.scaling.scale)}
    if decoder.decoding.shift is not None:
        details["latent_shift"] = _stated(decoder.decoding.shift, decoder.scaling.shift)
    if decoder.decoding.pixels != (-1, 1):
        details["decoded_pixels"] = list(decoder.decoding.pixels)
    way_back = "latents / scale + shift" if "latent_shift" in details else "latents / scale"
    return {
        "compared": "decoded samples with real images, which have not been through the autoencoder",
        "decoder_sha256": decoder.sha256,
        **details,
        "decoding": f"float32, {way_back}, {CHUNK} at a time",
    }


def _stated(given: Factor, found: Any) -> Any:
    """A factor of latents as the page shows it: its numbers, or the hash of the array `found`."""
    if isinstance(given, str):
        return f"array {tuple(found.shape)}, sha256 {hashlib.sha256(found.numpy().tobytes()).hexdigest()}"
    return list(given) if isinstance(given, tuple) else given


def doubtful_weights(network: ExtractorOptions) -> str:
    """Return a warning beside statistics that came with a reference; empty unless the network's weights are known not
    to be the published ones.
    """
    hashes = [content_sha256(file) for _, file in network.family.files(network)]
    if {is_as_published(one, sha256) for one in network.family.published for sha256 in hashes} != {False}:
        return ""
    return (
        f"the weights of {network.name} are not the published ones: the reference's statistics must be of the same "
        "weights, or these distances mean nothing"
    )


def below_protocol(measured: Iterable[MetricFamily], num_samples: int) -> str:
    """Return a warning where metrics' published figures are of more samples; empty if there are enough."""
    fewer = [metric for metric in measured if num_samples < metric.protocol_samples]
    if not fewer:
        return ""
    *titles, last = (figure.title for metric in fewer for figure in metric.figures)
    which = f"{', '.join(titles)} and {last}" if titles else last
    published = max(metric.protocol_samples for metric in fewer)
    return f"{which} from {num_samples:,} samples: published figures are from {published:,}"
