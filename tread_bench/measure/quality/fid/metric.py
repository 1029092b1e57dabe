"""FID: Heusel et al. 2017, eq. 6, by eigenvalues of symmetric matrices, in float64."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tread_bench.measure.quality.fid.family import FidOptions
from tread_bench.measure.quality.samples import Samples
from tread_bench.measure.quality.statistics import Moments, check_comparable, features_to_statistics


class FrechetDistance:
    """Between the means and covariances of all images."""

    def __init__(self, options: FidOptions) -> None:
        pass

    def __call__(self, generated: Samples, real: Samples) -> dict[str, float]:
        return {"fid": statistics_to_fid(generated, real)}


def statistics_to_fid(samples: Moments, reference: Moments) -> float:
    """Fréchet distance |m - m_r|^2 + tr(C + C_r - 2 (C C_r)^(1/2)) of two Gaussians, at least 0.

    With C = F F^T, the eigenvalues of C C_r are those of the symmetric F^T C_r F. F is made from the set of fewer
    images, whose covariance may not have full rank. Of features it is FID, of spatial features sFID.

    Args:
        samples: mean (d,) and covariance (d, d), unbiased (n - 1), float64, on any device.
        reference: the same of the real images, on the same device.

    Raises:
        FloatingPointError: a mean or covariance is NaN or infinite, as the covariance of a single image is.
        ValueError: they are of features of different lengths.

    Source: Dowson and Landau 1982; Heusel et al. 2017, eq. 6.
    """
    first, second = samples.mean, reference.mean
    if first.shape != second.shape:
        raise ValueError(f"features of {len(first)} and {len(second)} dimensions cannot be compared")
    fewer, more = (one.covariance for one in sorted((samples, reference), key=lambda one: one.count or math.inf))
    if not all(torch.isfinite(values).all() for values in (first, second, fewer, more)):
        raise FloatingPointError("a mean or covariance is NaN or infinite; a covariance takes two images or more")
    separate = float((first - second).square().sum() + fewer.trace() + more.trace())
    root = matrix_root(fewer)
    del fewer  # a matrix less at the peak of memory
    distance = separate - 2 * trace_of_root(root, more)
    return max(distance, 0.0)  # rounding can give slightly less


def features_to_fid(samples: Tensor, reference: Tensor) -> float:
    """Fréchet distance of two sets of features (n, d) and (m, d).

    Raises:
        FloatingPointError: a feature is NaN or infinite.
        ValueError: a set has fewer than two images, or the features differ in length.
    """
    check_comparable(samples, reference)
    if min(len(samples), len(reference)) < 2:
        raise ValueError(f"sets of {len(samples)} and {len(reference)} images: a covariance takes two or more")
    return statistics_to_fid(features_to_statistics(samples), features_to_statistics(reference))


def matrix_root(covariance: Tensor) -> Tensor:
    """F (d, rank) with F F^T = the covariance (d, d); directions whose variance is below its rounding are left out."""
    # Of full rank: Cholesky's, which is several times as fast.
    rounding = len(covariance) * torch.finfo(covariance.dtype).eps
    factor, failed = torch.linalg.cholesky_ex(covariance)
    if not failed and float(factor.diagonal().min()) ** 2 > rounding * float(covariance.diagonal().max()):
        return factor

    # Singular: by its eigenvectors.
    values, vectors = torch.linalg.eigh(covariance)
    kept = values > rounding * float(values.abs().max())
    return vectors[:, kept] * values[kept].sqrt()


def trace_of_root(root: Tensor, covariance: Tensor) -> float:
    """tr (F F^T C)^(1/2) of a root F (d, rank) and a covariance C (d, d)."""
    product = root.T @ covariance @ root
    symmetric = (product + product.T).div_(2)  # without the asymmetry of its rounding
    return float(torch.linalg.eigvalsh(symmetric).clamp(min=0).sqrt().sum())
