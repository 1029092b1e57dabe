"""KID: Bińkowski et al. 2018, eq. 3 with the cubic kernel. The maths is torch-fidelity's, in float64."""

from __future__ import annotations

from torch_fidelity.metric_kid import KEY_METRIC_KID_MEAN, kid_features_to_metric

from tread_bench.measure.quality.kid.family import SEED, KidOptions
from tread_bench.measure.quality.samples import Samples


class KernelDistance:
    """The mean over subsets, drawn by a fixed seed."""

    def __init__(self, options: KidOptions) -> None:
        self.options = options

    def __call__(self, generated: Samples, real: Samples) -> dict[str, float]:
        found = kid_features_to_metric(
            generated.features.double(),
            real.features.double(),
            kid_subsets=self.options.subsets,
            kid_subset_size=self.options.subset_size,
            rng_seed=SEED,
            verbose=False,
        )
        return {"kid": found[KEY_METRIC_KID_MEAN]}
