"""Inception v3 as a feature network, without torch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tread_bench.core.extractors import ExtractorFamily, ExtractorOptions, weights_file


class InceptionOptions(ExtractorOptions):
    """Inception v3 from metrics.inception_weights, as in torch-fidelity."""

    name: Literal["inception"] = "inception"
    weights: str | None = Field(None, description="torch-fidelity's Inception weights, a local file")


INCEPTION = ExtractorFamily(
    name="inception",
    options=InceptionOptions,
    builder="tread_bench.measure.quality.networks.inception.extractor:build",
    has_logits=True,
    ships=False,
    files=weights_file,
    check_files="tread_bench.measure.quality.networks.inception.extractor:weights_problems",
)
