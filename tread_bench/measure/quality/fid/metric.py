"""FID: Heusel et al. 2017. The maths is torch-fidelity's, in float64."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor
from torch_fidelity.metric_fid import KEY_METRIC_FID, fid_statistics_to_metric

from tread_bench.measure.quality.fid.family import FidOptions
from tread_bench.measure.quality.samples import Samples


class Gaussian(Protocol):
    """What the distance is of: a mean (d,) and a covariance (d, d), float64."""

    @property
    def mean(self) -> Tensor: ...
    @property
    def covariance(self) -> Tensor: ...


class FrechetDistance:
    """Between the means and covariances of all images."""

    def __init__(self, options: FidOptions) -> None:
        pass

    def __call__(self, generated: Samples, real: Samples) -> dict[str, float]:
        return {"fid": frechet_distance(generated, real)}


def frechet_distance(a: Gaussian, b: Gaussian) -> float:
    """|mean_a - mean_b|^2 + tr(C_a + C_b - 2 (C_a C_b)^(1/2)), at least 0: rounding can give slightly less."""
    gaussians = [{"mu": s.mean.numpy(), "sigma": s.covariance.numpy()} for s in (a, b)]
    return max(0.0, fid_statistics_to_metric(*gaussians, verbose=False)[KEY_METRIC_FID])
