"""Inception v3 as a feature network, without torch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tread_bench.core.describe.metrics import ExtractorFamily, ExtractorOptions, Published, weights_file


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
    resizes=True,
    has_spatial=True,
    stored_as=("mu", "sigma"),  # ADM, pytorch-fid, EDM2's "fid"
    spatial_stored_as=("mu_s", "sigma_s"),  # ADM's sFID
    published=(
        Published(
            file="weights-inception-2015-12-05-6726825d.pth",
            where="torch-fidelity, release v0.2.0, https://github.com/toshas/torch-fidelity/releases/tag/v0.2.0",
            sha256="6726825d",
        ),
    ),
)
