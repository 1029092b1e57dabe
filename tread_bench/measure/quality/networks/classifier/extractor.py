"""Small classifiers as feature networks: those of digits and glyphs, and those that `tread-bench features` trains."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tread_bench.core.config.metrics import GIVE_WEIGHTS
from tread_bench.core.errors import UserError
from tread_bench.measure.quality.features import Extractor
from tread_bench.measure.quality.networks.classifier.family import (
    TRAINED_CLASSIFIER,
    DigitsClassifierOptions,
    GlyphsClassifierOptions,
    TrainedClassifierOptions,
)
from tread_bench.measure.quality.networks.classifier.network import (
    DIGITS_WEIGHTS,
    GLYPHS_WEIGHTS,
    ClassifierFeatures,
    Resized,
)


def open_digits_classifier(options: DigitsClassifierOptions, shape: tuple[int, int]) -> Extractor:
    """Return the one whose weights ship with this package. Raises UserError."""
    return open_classifier(DIGITS_WEIGHTS, shape)


def open_glyphs_classifier(options: GlyphsClassifierOptions, shape: tuple[int, int]) -> Extractor:
    """Return the one of 16x16 glyphs whose weights ship with this package; it resizes other images. Raises
    UserError.
    """
    network = ClassifierFeatures(options.name, GLYPHS_WEIGHTS)
    if (channels := shape[0]) != network.spec.channels:
        raise UserError(f"{options.name} takes grey images, the data have {channels} channels: {GIVE_WEIGHTS}")
    sha256 = hashlib.sha256(GLYPHS_WEIGHTS.read_bytes()).hexdigest()
    return Extractor(options.name, Resized(network), sha256, network.spec.widths[-1])


def open_trained_classifier(options: TrainedClassifierOptions, shape: tuple[int, int]) -> Extractor:
    """Return one of `tread-bench features`. Raises UserError."""
    if options.weights is None:
        raise UserError(f"metrics.extractor {options.name} needs a local weights file: set metrics.extractor_weights")
    return open_classifier(options.weights, shape)


def open_classifier(path: str | Path, shape: tuple[int, int] | None = None) -> Extractor:
    """Return a network of `tread-bench features`; `shape` is (channels, image_size) of the images to be measured."""
    network = ClassifierFeatures(TRAINED_CLASSIFIER.name, path)
    spec = network.spec
    if shape and shape != (spec.channels, spec.image_size):
        raise UserError(
            f"{path} is a feature network for {spec.channels}x{spec.image_size}x{spec.image_size} images, the data are "
            f"{shape[0]}x{shape[1]}x{shape[1]}: {GIVE_WEIGHTS}"
        )
    name = network.about.get("name", TRAINED_CLASSIFIER.name)
    return Extractor(name, network, hashlib.sha256(Path(path).read_bytes()).hexdigest(), spec.widths[-1])
