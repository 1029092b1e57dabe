"""FID of each class: Miyato and Koyama 2018, section 5.1 (intra-FID)."""

from __future__ import annotations

from torch import Tensor

from tread_bench.core.metrics import Estimate
from tread_bench.measure.quality.fid.metric import features_to_fid
from tread_bench.measure.quality.per_class_fid.family import PerClassFidOptions
from tread_bench.measure.quality.samples import Samples, too_few_of_a_class


class DistanceWithinClasses:
    """Between generated and real images of each class."""

    def __init__(self, options: PerClassFidOptions) -> None:
        pass

    def __call__(self, generated: Samples, real: Samples) -> dict[str, Estimate]:
        found = features_to_per_class_fid(generated.features, generated.labels, real.features, real.labels)
        return {"per_class_fid": found}


def features_to_per_class_fid(samples: Tensor, labels: Tensor, reference: Tensor, reference_labels: Tensor) -> Estimate:
    """Fréchet distance of the samples of each class to the reference's images of that class, and their mean.

    The classes are those of the samples. Each of the estimate's `parts` is a class, by its label, with its distance.

    Args:
        samples: features (n, d) float32.
        labels: (n,) int64.
        reference: features (m, d) float32.
        reference_labels: (m,) int64.

    Raises:
        FloatingPointError: a feature is NaN or infinite.
        ValueError: a class of the samples has fewer than two images in a set.

    Source: Miyato and Koyama 2018, section 5.1.
    """
    if wrong := too_few_of_a_class(2, labels, reference_labels):
        raise ValueError(wrong)
    parts = {}
    for label in labels.unique().tolist():
        parts[str(label)] = features_to_fid(samples[labels == label], reference[reference_labels == label])
    return Estimate(value=sum(parts.values()) / len(parts), parts=parts)
