"""FID of each class: Miyato and Koyama 2018, section 5.1 (intra-FID)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from tread_bench.core.describe.metrics import Estimate
from tread_bench.measure.quality.fid.metric import features_to_fid
from tread_bench.measure.quality.per_class_fid.family import PerClassFidOptions
from tread_bench.measure.quality.samples import Samples, class_name, too_few_of_a_class


class DistanceWithinClasses:
    """Between generated and real images of each class."""

    def __init__(self, options: PerClassFidOptions) -> None:
        pass

    def __call__(self, generated: Samples, real: Samples) -> dict[str, Estimate]:
        sets = generated.features, generated.labels, real.features, real.labels
        found = features_to_per_class_fid(*sets, generated.class_names)
        return {"per_class_fid": found}


def features_to_per_class_fid(
    samples: Tensor, labels: Tensor, reference: Tensor, reference_labels: Tensor, class_names: Sequence[str] = ()
) -> Estimate:
    """Fréchet distance of the samples of each class to the reference's images of that class, and their mean.

    The classes are those of the samples. Each of the estimate's `parts` is a class, by its name, with its distance.

    A class of no more than d images has a covariance without full rank: the estimate then has a warning.

    Args:
        samples: features (n, d) float32.
        labels: (n,) int64.
        reference: features (m, d) float32, perhaps on another device than the samples'.
        reference_labels: (m,) int64.
        class_names: by label, no two alike; empty: classes are called by their labels.

    Raises:
        FloatingPointError: a feature is NaN or infinite.
        ValueError: a class of the samples has fewer than two images in a set.

    Source: Miyato and Koyama 2018, section 5.1.
    """
    if wrong := too_few_of_a_class(2, labels, reference_labels, class_names):
        raise ValueError(wrong)

    # The distance of each class.
    parts, images = {}, {}
    for label in labels.unique().tolist():
        of_class = samples[labels == label], reference[reference_labels == label].to(samples.device)
        name = class_name(label, class_names)
        parts[name] = features_to_fid(*of_class)
        images[name] = min(map(len, of_class))

    # Their mean.
    warning = _few_images(images, samples.shape[1])
    return Estimate(value=sum(parts.values()) / len(parts), parts=parts, warning=warning)


def _few_images(images: Mapping[str, int], dims: int) -> str:
    """A warning where a class has no more images, in the set that has fewer, than features have numbers."""
    fewest = min(images, key=lambda name: images[name])
    if images[fewest] > dims:
        return ""
    return f"FID per class from {images[fewest]} images of class {fewest}, no more than {dims} features: biased upwards"
