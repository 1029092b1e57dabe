"""What is measured of a cell, and when."""

from __future__ import annotations

from pydantic import Field

from tread_bench.core.config.base import Float, Int, Model, Share
from tread_bench.core.guidance import Blocks

EXTRACTORS = {
    "digits-classifier": "a small classifier of digits whose weights ship with the package",
    "trained-classifier": "the same kind of network from metrics.extractor_weights (`tread-bench features`)",
    "inception": "Inception v3 from metrics.inception_weights, as torch-fidelity has it",
}
SHIPPED_EXTRACTORS = ("digits-classifier",)  # of these, whose weights come with the package


class Metrics(Model):
    """What is measured of a cell, and when."""

    at: tuple[Int, ...] | None = Field(
        None, min_length=1, description="iterations at which to evaluate, ascending; empty: the last one"
    )
    generate: bool = Field(True, description="false: no images are generated, so FID and its kin are not measured")
    num_samples: Int = Field(
        512, ge=10, description="generated images per evaluation; the Inception score has ten parts"
    )
    batch: Int = Field(256, ge=1, description="images generated and scored at a time; changes no figure")
    ema: bool = Field(True, description="evaluate the averaged weights")
    validation_samples: Int = Field(256, ge=1, description="held-out images in the dense validation loss")
    kid_subset_size: Int = Field(100, ge=2)
    kid_subsets: Int = Field(50, ge=1)
    neighbours: Int = Field(3, ge=1, description="k of precision and recall")
    similarity_samples: Int = Field(64, ge=1, description="held-out images in the layer cosine similarity")
    similarity_times: tuple[Float, ...] = Field(
        (), description="times of the same: t of flow, sigma of edm; empty: the objective's own"
    )
    routed_rates: tuple[Share, ...] = Field(
        (), description="rates at which the trained network is also run routed: the gap of training to inference"
    )
    routed_blocks: Blocks = Field((), description="START:END of that; empty: those of the cell's routes")
    extractor: str | None = Field(None, description="feature network; empty: the one that suits the data")
    extractor_weights: str | None = Field(None, description="safetensors file from `tread-bench features`")
    inception_weights: str | None = Field(None, description="torch-fidelity's Inception weights, a local file")
