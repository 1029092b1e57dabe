"""What a quality figure depends on besides the model: rows whose fingerprints differ are never ranked together."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from tread_bench.measure.quality.reference import REFERENCE_FEATURES

if TYPE_CHECKING:
    from tread_bench.core.config.suite import Cell
    from tread_bench.core.data_sources import Factor
    from tread_bench.measure.quality.decoder import Decoder
    from tread_bench.measure.quality.features import Extractor
    from tread_bench.measure.quality.reference import Reference

GUIDANCE = {"guidance", "guidance_scale"}
DEFINITION = "torch-fidelity 0.4 formulas on float64 statistics, 1"  # counts up when a figure would change


def protocol_fingerprint(**details: Any) -> str:
    """12 hexadecimal digits of the SHA-256 over the details' canonical JSON."""
    canonical = json.dumps(details, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()[:12]


def protocol(
    cell: Cell, extractor: Extractor, reference: Reference, decoder: Decoder | None = None
) -> tuple[str, dict[str, Any]]:
    """The fingerprint, and its details for the page. Guidance is not part of it: samples are compared across guidance.

    Where FID has fewer samples than twice its feature length, the details also hold a `caution`, which follows from the
    others and is not part of the fingerprint.
    """
    # All that a figure of quality depends on, but the network and its guidance.
    metrics = cell.metrics
    stated = {metric.name: metric.family.protocol(metric) for metric in metrics.measured(cell.data)}
    further = {metric.name: stated[metric.name] for metric in metrics.also}
    details = {
        "definition": DEFINITION,
        "feature_network": extractor.name,
        "feature_network_sha256": extractor.sha256,
        "feature_dims": extractor.dims,
        "reference_sha256": reference.sha256,
        "reference_images": reference.statistics.count,
        "reference_features": f"at most {REFERENCE_FEATURES} for KID, precision and recall",
        "num_samples": metrics.num_samples,
        "labels": "balanced: sample index mod num_classes" if cell.data.num_classes else "none",
        "ema": metrics.ema,
        "pixels": "uint8, round((x + 1) * 127.5)",
        **{name: text for name, text in stated.items() if text and name not in further},
        **({"also": further} if further else {}),
        **(_decoding(decoder) if decoder else {}),
        **{f"sampling_{key}": value for key, value in cell.sampling.model_dump(mode="json", exclude=GUIDANCE).items()},
    }
    return protocol_fingerprint(**details), details | _caution(metrics.num_samples, extractor.dims)


def _decoding(decoder: Decoder) -> dict[str, Any]:
    # What not every decoding has is only stated where it is there: fingerprints of older versions stay the same.
    details = {"latent_scale": _stated(decoder.decoding.scale, decoder.scaling.scale)}
    if decoder.decoding.shift is not None:
        details["latent_shift"] = _stated(decoder.decoding.shift, decoder.scaling.shift)
    if decoder.network.pixels != (-1, 1):
        details["decoded_pixels"] = list(decoder.network.pixels)
    way_back = "latents / scale + shift" if "latent_shift" in details else "latents / scale"
    return {
        "compared": "decoded samples with real images of data.images, which have not been through the autoencoder",
        "decoder_sha256": decoder.sha256,
        **details,
        "decoding": f"float32, {way_back}, {decoder.network.chunk} at a time",
    }


def _stated(given: Factor, found: Any) -> Any:
    """A factor of latents as the page shows it: its numbers, or the hash of the array `found`."""
    if isinstance(given, str):
        return f"array {tuple(found.shape)}, sha256 {hashlib.sha256(found.numpy().tobytes()).hexdigest()}"
    return list(given) if isinstance(given, tuple) else given


def _caution(num_samples: int, dims: int) -> dict[str, str]:
    if num_samples >= 2 * dims:
        return {}
    return {"caution": f"FID from {num_samples} samples of {dims} features, fewer than {2 * dims}: biased upwards"}
