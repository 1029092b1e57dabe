"""Small classifiers as feature networks, without torch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tread_bench.core.describe.metrics import ExtractorFamily, ExtractorOptions, weights_file


class DigitsClassifierOptions(ExtractorOptions):
    """A small classifier of digits whose weights ship with the package."""

    name: Literal["digits-classifier"] = "digits-classifier"


class GlyphsClassifierOptions(ExtractorOptions):
    """A small classifier of scripts for data glyphs, images of any size; its weights ship with the package."""

    name: Literal["glyphs-classifier"] = "glyphs-classifier"


class TrainedClassifierOptions(ExtractorOptions):
    """The same kind of network from metrics.extractor_weights (`tread-bench features`)."""

    name: Literal["trained-classifier"] = "trained-classifier"
    weights: str | None = Field(None, description="safetensors file from `tread-bench features`")


DIGITS_CLASSIFIER = ExtractorFamily(
    name="digits-classifier",
    options=DigitsClassifierOptions,
    builder="tread_bench.measure.quality.networks.classifier.network:open_digits_classifier",
    has_logits=True,
    ships=True,
)
GLYPHS_CLASSIFIER = ExtractorFamily(
    name="glyphs-classifier",
    options=GlyphsClassifierOptions,
    builder="tread_bench.measure.quality.networks.classifier.network:open_glyphs_classifier",
    has_logits=True,
    ships=True,
)
TRAINED_CLASSIFIER = ExtractorFamily(
    name="trained-classifier",
    options=TrainedClassifierOptions,
    builder="tread_bench.measure.quality.networks.classifier.network:open_trained_classifier",
    has_logits=True,
    ships=False,
    files=weights_file,
)
