"""FID of each class: Miyato and Koyama 2018, section 5.1 (intra-FID)."""

from __future__ import annotations

from collections.abc import Mapping

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

    A class of no more than d images has a covariance without full rank: the estimate then has a warning.

    Args:
        samples: features (n, d) float32.
        labels: (n,) int64.
        reference: features (m, d) float32, perhaps on another device than the samples'.
        reference_labels: (m,) int64.

    Raises:
        FloatingPointError: a feature is NaN or infinite.
        ValueError: a class of the samples has fewer than two images in a set.

    Source: Miyato and Koyama 2018, section 5.1.
    """
    if wrong := too_few_of_a_class(2, labels, reference_labels):
        raise ValueError(wrong)

    # The distance of each class.
    parts, images = {}, {}
    for label in map(str, labels.unique().tolist()):
        of_class = samples[labels == int(label)], reference[reference_labels == int(label)].to(samples.device)
        parts[label] = features_to_fid(*of_class)
        images[label] = min(map(len, of_class))

    # Their mean.
    warning = _few_images(images, samples.shape[1])
    return Estimate(value=sum(parts.values()) / len(parts), parts=parts, warning=warning)


def _few_images(images: Mapping[str, int], dims: int) -> str:
    """A warning where a class has no more images, in the set that has fewer, than features have numbers."""
    label = min(images, key=lambda label: images[label])
    if images[label] > dims:
        return ""
    return f"FID per class from {images[label]} images of class {label}, no more than {dims} features: biased upwards"
