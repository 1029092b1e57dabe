"""KID: Bińkowski et al. 2018, eq. 3 with the cubic kernel. The maths is torch-fidelity's, in float64."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch_fidelity.metric_kid import KEY_METRIC_KID_MEAN, KEY_METRIC_KID_STD, kid_features_to_metric

from tread_bench.core.describe.metrics import Estimate
from tread_bench.core.numbers.statistics import CONFIDENCE, student_quantile
from tread_bench.measure.quality.kid.family import SEED, KidOptions
from tread_bench.measure.quality.samples import Samples
from tread_bench.measure.quality.statistics import check_comparable


class KernelDistance:
    """The mean over subsets, drawn by a fixed seed."""

    def __init__(self, options: KidOptions) -> None:
        self.options = options

    def __call__(self, generated: Samples, real: Samples) -> dict[str, Estimate]:
        subset_size, subsets = self.options.subset_size, self.options.subsets
        return {"kid": features_to_kid(generated.features, real.features, subset_size, subsets)}


def features_to_kid(
    samples: Tensor, reference: Tensor, subset_size: int = 1000, subsets: int = 100, seed: int = SEED
) -> Estimate:
    """Unbiased squared MMD with the kernel (x.y / d + 1)^3, as the mean over random subsets: torch-fidelity's KID.

    The random subsets overlap, so their spread is not the figure's uncertainty. The 95 % interval is Student's t: its
    variance is that of a mean over disjoint subsets of both sets, and that of drawing the random ones. It needs two of
    each.

    Args:
        samples: (n, d) float32.
        reference: (m, d) float32.
        subset_size: images of each set in a subset, at least 2.
        subsets: number of random subsets, at least 1.
        seed: of the subsets.

    Raises:
        FloatingPointError: a feature is NaN or infinite.
        ValueError: a set has fewer images than a subset, a subset has no pairs, or features differ in length.

    Source: Bińkowski et al. 2018, eq. 3; torch-fidelity.
    """
    check_comparable(samples, reference)
    if subset_size < 2 or subsets < 1:
        rule = "KID compares pairs within a set, so it takes one subset or more, of two images or more"
        raise ValueError(f"{subsets} subsets of {subset_size}: {rule}")
    if (fewest := min(len(samples), len(reference))) < subset_size:
        raise ValueError(f"a set of {fewest} images has no subsets of {subset_size}; make subset_size smaller")

    # The figure.
    first, second = (features.double().cpu() for features in (samples, reference))
    value, deviation = _over_subsets(first, second, subset_size, subsets, seed)

    # Its interval.
    generator = np.random.RandomState(seed)
    parts = [_disjoint(len(features), subset_size, generator) for features in (first, second)]
    if min(subsets, *map(len, parts)) < 2:
        return Estimate(value=value)
    apart = [_over_subsets(first[x], second[y], subset_size, 1, seed)[0] for x, y in zip(*parts, strict=False)]
    variance = float(np.var(apart, ddof=1)) / len(apart) + deviation**2 / (subsets - 1)
    half = student_quantile((1 + CONFIDENCE) / 2, len(apart) - 1) * math.sqrt(variance)
    method = f"t interval over {len(apart)} disjoint subsets of {subset_size} images of each set"
    return Estimate(value=value, low=value - half, high=value + half, method=method)


def _over_subsets(first: Tensor, second: Tensor, subset_size: int, subsets: int, seed: int) -> tuple[float, float]:
    """Mean and standard deviation over random subsets; the latter divides by their number."""
    found = kid_features_to_metric(
        first, second, kid_subsets=subsets, kid_subset_size=subset_size, rng_seed=seed, verbose=False
    )
    return float(found[KEY_METRIC_KID_MEAN]), float(found[KEY_METRIC_KID_STD])


def _disjoint(count: int, subset_size: int, generator: np.random.RandomState) -> NDArray[np.int64]:
    """Images of disjoint subsets, (subsets, subset_size)."""
    order = generator.permutation(count)[: count // subset_size * subset_size]
    return order.reshape(-1, subset_size)
