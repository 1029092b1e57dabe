"""KID: Bińkowski et al. 2018, eq. 3 with the cubic kernel. The maths is torch-fidelity's, in float64."""

from __future__ import annotations

from torch import Tensor
from torch_fidelity.metric_kid import KEY_METRIC_KID_MEAN, kid_features_to_metric

from tread_bench.core.describe.metrics import Estimate
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

    The random subsets overlap, so their spread is not the figure's uncertainty: it has no interval.

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

    found = kid_features_to_metric(
        samples.double().cpu(),
        reference.double().cpu(),
        kid_subsets=subsets,
        kid_subset_size=subset_size,
        rng_seed=seed,
        verbose=False,
    )
    return Estimate(value=float(found[KEY_METRIC_KID_MEAN]))
