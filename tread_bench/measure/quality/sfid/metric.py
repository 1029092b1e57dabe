"""sFID: Nash et al. 2021, section 4.2: the Fréchet distance of features that keep their place in the image."""

from __future__ import annotations

from tread_bench.measure.quality.fid.metric import statistics_to_fid
from tread_bench.measure.quality.samples import Samples
from tread_bench.measure.quality.sfid.family import SfidOptions
from tread_bench.measure.quality.statistics import Gaussian


class SpatialFrechetDistance:
    """Between the means and covariances of all images' spatial features."""

    def __init__(self, options: SfidOptions) -> None:
        pass

    def __call__(self, generated: Samples, real: Samples) -> dict[str, float]:
        sets = (Gaussian(one.spatial_mean, one.spatial_covariance, one.spatial_count) for one in (generated, real))
        return {"sfid": statistics_to_fid(*sets)}
