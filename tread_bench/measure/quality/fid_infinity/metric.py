"""FID∞: Chong and Forsyth 2020: FID of n images is linear in 1 / n, and the line's value at 0 has no bias."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from tread_bench.core.describe.metrics import Estimate
from tread_bench.measure.quality.fid.metric import matrix_root, trace_of_root
from tread_bench.measure.quality.fid_infinity.family import SEED, FidInfinityOptions
from tread_bench.measure.quality.samples import Samples
from tread_bench.measure.quality.statistics import Moments, check_comparable, features_to_statistics


class ExtrapolatedDistance:
    """From subsets of the generated images, drawn by a fixed seed, to the statistics of all real ones."""

    def __init__(self, options: FidInfinityOptions) -> None:
        self.options = options

    def __call__(self, generated: Samples, real: Samples) -> dict[str, Estimate]:
        found = features_to_fid_infinity(generated.features, real, self.options.smallest, self.options.points)
        return {"fid_infinity": found}


def features_to_fid_infinity(
    samples: Tensor, reference: Moments, smallest: int = 5000, points: int = 15, seed: int = SEED
) -> Estimate:
    """FID extrapolated to infinitely many samples: the intercept of a line through FIDs of subsets, over 1 / n.

    As in dgm-eval, `points` subsets have evenly spaced sizes from the larger of `smallest` and a tenth of the samples
    to all of them; each is drawn anew without replacement. The figure is not held above 0: noise may take the intercept
    of a small distance below it. Its `points` are the size and FID of each subset.

    The bias by the number of reference images stays in the figure. It has no interval: the subsets overlap, so that
    their spread about the line is not that of other samples.

    Args:
        samples: (n, d) float32, on any device.
        reference: mean and covariance of the real images' features, float64, on the same device.
        smallest: images of the smallest subset, at least 2.
        points: subsets, at least 3.

    Raises:
        FloatingPointError: a feature, a mean or a covariance is NaN or infinite.
        ValueError: fewer than 2 * smallest samples, over which no line can be extrapolated; or features differ in
            length.

    Source: Chong and Forsyth 2020; Stein et al. 2023 (dgm-eval).
    """
    count = len(samples)
    if smallest < 2 or points < 3:
        raise ValueError(f"{points} subsets from {smallest} images on: a line takes 3 or more, of 2 images or more")
    if count < 2 * smallest:
        raise ValueError(f"{count} samples: extrapolation from subsets of {smallest} takes {2 * smallest} or more")

    # The FID of each subset; the reference's root is taken once.
    mean, covariance = reference.mean, reference.covariance
    check_comparable(samples, covariance)
    root = matrix_root(covariance)
    generator = np.random.default_rng(seed)
    sizes = np.linspace(max(smallest, count // 10), count, points).astype(int)
    fids = []
    for size in sizes:
        subset = generator.permutation(count)[:size]
        found = features_to_statistics(samples[torch.from_numpy(subset).to(samples.device)])
        own = found.covariance
        traces = float(own.trace() + covariance.trace()) - 2 * trace_of_root(root, own)
        fids.append(float((found.mean - mean).square().sum()) + traces)

    # The line's value where 1 / n is 0.
    weights_of_fit = np.linalg.pinv(np.stack([np.ones(points), sizes[0] / sizes], 1))[0]  # of each point
    intercept = float(weights_of_fit @ np.array(fids))
    return Estimate(value=intercept, points=tuple(zip(map(int, sizes), fids, strict=True)))
