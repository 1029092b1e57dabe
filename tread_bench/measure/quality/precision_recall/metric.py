"""Precision and recall: Kynkäänniemi et al. 2019, with torch-fidelity's distances in float64 or with ADM's blocks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import torch
from scipy import stats
from torch import Tensor
from torch_fidelity.metric_prc import KEY_METRIC_PRECISION, KEY_METRIC_RECALL, prc_features_to_metric

from tread_bench.core.describe.metrics import Estimate
from tread_bench.core.numbers.statistics import CONFIDENCE
from tread_bench.data.pretrained import full_float32
from tread_bench.measure.quality.precision_recall.family import Distances, PrecisionRecallOptions
from tread_bench.measure.quality.samples import Samples
from tread_bench.measure.quality.statistics import check_comparable

_BLOCK = 10_000  # images on each side of a block of distances, as in ADM: a block that overflows is in float32
_ROWS = 1000  # of a block that are computed at a time


class PrecisionRecall:
    """Shares of images that lie among the nearest neighbours of the other set."""

    def __init__(self, options: PrecisionRecallOptions) -> None:
        self.options = options

    def __call__(self, generated: Samples, real: Samples) -> dict[str, float | Estimate]:
        k, distances = self.options.neighbours, self.options.distances
        found = features_to_precision_recall(generated.features, real.features, k, distances)
        return found._asdict()


class PrecisionAndRecall(NamedTuple):
    """Precision has an interval; recall has none, since the samples are its manifold."""

    precision: Estimate
    recall: Estimate


def features_to_precision_recall(
    samples: Tensor, reference: Tensor, k: int = 3, distances: Distances = "float16"
) -> PrecisionAndRecall:
    """Share of samples within the reference's manifold, and of reference images within that of the samples.

    A manifold is the union of the balls around each image of a set, whose radius is the distance of its k-th neighbour,
    without itself.

    Args:
        samples: (n, d) float32, on any device.
        reference: (m, d) float32, on the same device.
        k: neighbours, at least 1.
        distances: "float16" is ADM: squared distances |u|^2 - 2 u.v + |v|^2 in float16, in blocks of 10,000 by 10,000;
            a block that overflows is computed in float32. Products are summed in float32 and then rounded, as a GPU
            does. "float32": all blocks in float32. "float64": torch-fidelity's distances.

    Raises:
        FloatingPointError: a feature is NaN or infinite.
        ValueError: a set has no k-th neighbour, or features differ in length.

    Source: Kynkäänniemi et al. 2019; Dhariwal and Nichol 2021, evaluations/evaluator.py.
    """
    check_comparable(samples, reference)
    if k < 1:
        raise ValueError(f"k {k}: a manifold takes one neighbour of each image or more")
    if (fewest := min(len(samples), len(reference))) <= k:
        raise ValueError(f"a set of {fewest} images has no {k} neighbours of each: it takes {k + 1} or more")

    # Whether each image lies within the other manifold.
    if distances == "float64":
        found = prc_features_to_metric(
            samples.double(), reference.double(), prc_neighborhood=k, save_cpu_ram=True, verbose=False
        )
        precision, recall = found[KEY_METRIC_PRECISION], found[KEY_METRIC_RECALL]
    else:
        in_reference, in_samples = _memberships(samples, reference, k, distances == "float16")
        precision, recall = (float(inside.double().mean()) for inside in (in_reference, in_samples))

    # The samples are independent draws, and the reference is given: Wilson's interval of a share.
    share = stats.binomtest(round(precision * len(samples)), len(samples))
    low, high = share.proportion_ci(CONFIDENCE, "wilson")
    method = "Wilson interval over the samples, with this reference"
    with_interval = Estimate(value=precision, low=float(low), high=float(high), method=method)
    return PrecisionAndRecall(with_interval, Estimate(value=recall))


def _memberships(samples: Tensor, reference: Tensor, k: int, in_half: bool) -> tuple[Tensor, Tensor]:
    """Whether each sample (n,) lies in the manifold of the reference, and each reference image (m,) in the other."""
    with full_float32(samples.device):
        of_samples, of_reference = (_radii(features, k, in_half) for features in (samples, reference))
        in_reference = torch.zeros(len(samples), dtype=torch.bool, device=samples.device)
        in_samples = torch.zeros(len(reference), dtype=torch.bool, device=samples.device)
        for rows, columns, squares in _blocks(reference, samples, in_half):  # ADM's order, which rounding depends on
            in_samples[rows] |= (squares <= of_samples[columns]).any(1)
            in_reference[columns] |= (squares <= of_reference[rows, None]).any(0)
    return in_reference, in_samples


def _radii(features: Tensor, k: int, in_half: bool) -> Tensor:
    """Squared distance (n,) of each image's k-th neighbour; the first of its sorted distances is that to itself."""
    nearest = features.new_full((len(features), k + 1), math.inf)
    for rows, _, squares in _blocks(features, features, in_half):
        found = torch.cat([nearest[rows], squares], 1)
        nearest[rows] = found.topk(k + 1, largest=False, sorted=True).values
    return nearest[:, k]


def _blocks(first: Tensor, second: Tensor, in_half: bool) -> Iterator[tuple[slice, slice, Tensor]]:
    """Squared distances (rows, columns) float32 of all pairs, part by part, with their places."""
    for row in range(0, len(first), _BLOCK):
        for column in range(0, len(second), _BLOCK):
            v = second[column : column + _BLOCK]
            parts = first[row : row + _BLOCK].split(_ROWS)
            squares: Iterable[Tensor] = (_squares(u, v) for u in parts)
            if in_half:
                halves = [_half_squares(u, v) for u in parts]
                if all(bool(part.isfinite().all()) for part in halves):
                    squares = (half.float() for half in halves)
            start = row
            for part in squares:
                yield slice(start, start + len(part)), slice(column, column + len(v)), part
                start += len(part)


def _squares(u: Tensor, v: Tensor) -> Tensor:
    """|u|^2 - 2 u.v + |v|^2, at least 0."""
    return (u.square().sum(1)[:, None] - 2 * (u @ v.T) + v.square().sum(1)).clamp(min=0)


def _half_squares(u: Tensor, v: Tensor) -> Tensor:
    """The same in float16, every step rounded; sums of products are added in float32."""
    u, v = u.half(), v.half()
    norms = [part.square().float().sum(1).half() for part in (u, v)]
    products = (u.float() @ v.float().T).half()
    return (norms[0][:, None] - 2 * products + norms[1]).clamp(min=0)
