"""sFID: Nash et al. 2021, section 4.2: the Fréchet distance of features that keep their place in the image."""

from __future__ import annotations

from tread_bench.measure.quality.fid.metric import statistics_to_fid
from tread_bench.measure.quality.samples import Samples
from tread_bench.measure.quality.sfid.family import SfidOptions


class SpatialFrechetDistance:
    """Between the means and covariances of all images' spatial features."""

    def __init__(self, options: SfidOptions) -> None:
        pass

    def __call__(self, generated: Samples, real: Samples) -> dict[str, float]:
        return {"sfid": statistics_to_fid(generated.spatial, real.spatial)}
