"""Sums over features of a set of images, which stream: what torch-fidelity's metrics lack."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg.blas import dsyrk
from torch import Tensor

if TYPE_CHECKING:
    from tread_bench.measure.quality.features import Features

ROWS = 1000  # features that are looked at, or added, at a time


class Moments(Protocol):
    """What a Fréchet distance reads of a set: mean (d,) and covariance (d, d), float64, and the number of images."""

    @property
    def mean(self) -> Tensor: ...
    @property
    def covariance(self) -> Tensor: ...
    @property
    def count(self) -> int | None: ...


@dataclass(frozen=True, eq=False)
class Gaussian:
    """Moments as a file of reference statistics holds them.

    Args:
        mean: (d,) float64.
        covariance: (d, d) float64, unbiased (n - 1).
        count: number of images; None: not known.
        settings: of the feature network, as `settings_of` gives them; None: its file does not depend on any.
    """

    mean: Tensor = field(repr=False)
    covariance: Tensor = field(repr=False)
    count: int | None = None
    settings: Mapping[str, Any] | None = None

    def to(self, device: torch.device) -> Gaussian:
        """Return the same on that device."""
        return replace(self, mean=self.mean.to(device), covariance=self.covariance.to(device))


class FeatureStatistics:
    """Float64 sums over features (n, d), which add up over batches, and their mean and covariance.

    Args:
        dims: length d of a feature vector.
        device: of the sums and of the features that are added.
    """

    def __init__(self, dims: int, device: torch.device | str = "cpu") -> None:
        self.count = 0
        self.total = torch.zeros(dims, dtype=torch.float64, device=device)
        # Of the sum of outer products: the lower triangle.
        self.half = torch.zeros(dims, dims, dtype=torch.float64, device=device)
        self._buffer: Tensor | None = None

    def add(self, features: Tensor) -> None:
        """Add features (B, d)."""
        if not torch.isfinite(features).all():
            raise FloatingPointError("features contain NaN or infinite values, so no metric can be computed")

        # In float64, in a buffer that batches share: new ones for each would be strewn over the heap.
        if self._buffer is None or len(self._buffer) < len(features):
            self._buffer = torch.empty(features.shape, dtype=torch.float64, device=features.device)
        features_BD = self._buffer[: len(features)].copy_(features)

        self.count += len(features_BD)
        self.total += features_BD.sum(0)
        if self.half.device.type != "cpu":
            self.half.add_((features_BD.T @ features_BD).tril())
        else:
            upper = self.half.numpy().T  # in Fortran's order, so BLAS adds in place
            dsyrk(1.0, features_BD.numpy().T, beta=1.0, c=upper, overwrite_c=True)

    def to(self, device: torch.device | str) -> Self:
        """Return the same statistics, with their sums on that device."""
        self.total, self.half, self._buffer = self.total.to(device), self.half.to(device), None
        return self

    @property
    def mean(self) -> Tensor:
        """(d,) float64."""
        return self.total / self.count

    @property
    def covariance(self) -> Tensor:
        """(d, d) float64, unbiased (n - 1)."""
        outer = self.half + self.half.tril(-1).T
        return outer.addr_(self.mean, self.mean, alpha=-self.count).div_(self.count - 1)


class Statistics(NamedTuple):
    """What is kept of a set of images, as a feature network sees them.

    Args:
        pooled: sums over the features of all images.
        features: (m, d) float32, those that are kept one by one.
        logits: (n, classes) float32, of all images; None: there are none.
        spatial: sums over features that keep their place in the image; None: they are not seen.
    """

    pooled: FeatureStatistics
    features: Tensor
    logits: Tensor | None = None
    spatial: FeatureStatistics | None = None

    def to(self, device: torch.device | str) -> Statistics:
        """Return the same on that device; logits stay where they are."""
        spatial = self.spatial and self.spatial.to(device)
        return self._replace(pooled=self.pooled.to(device), features=self.features.to(device), spatial=spatial)


def summed(seen: Iterable[Features], kept: NDArray[np.int64], device: torch.device | str = "cpu") -> Statistics:
    """Return sums over the features of a set of images, batch by batch.

    Args:
        seen: features of the images, in order; logits are kept where there are some.
        kept: images whose features are kept one by one, ascending.
        device: of sums and features.

    Raises:
        FloatingPointError: a feature is NaN or infinite.
        ValueError: there are no images.
    """
    pooled: FeatureStatistics | None = None
    spatial: FeatureStatistics | None = None
    rows = torch.empty(0)  # in one piece: joining parts would take their memory twice
    logits: list[Tensor] = []
    for batch in seen:
        features = batch.pooled.to(device)
        if pooled is None:
            pooled = FeatureStatistics(features.shape[1], device)
            rows = torch.empty(len(kept), features.shape[1], device=device)
        first, last = np.searchsorted(kept, (pooled.count, pooled.count + len(features)))
        rows[first:last] = features[torch.from_numpy(kept[first:last] - pooled.count)]
        pooled.add(features)
        if batch.logits is not None:
            logits.append(batch.logits)
        if batch.spatial is not None:
            spatial = spatial or FeatureStatistics(batch.spatial.shape[1], device)
            spatial.add(batch.spatial.to(device))
    if pooled is None:
        raise ValueError("there are no images")
    return Statistics(pooled, rows, torch.cat(logits) if logits else None, spatial)


def check_comparable(samples: Tensor, reference: Tensor) -> None:
    """Check two sets of features, (n, d) and (m, d).

    Raises:
        FloatingPointError: a feature is NaN or infinite.
        ValueError: the features of the sets differ in length.
    """
    if samples.shape[1] != reference.shape[1]:
        dims = f"{samples.shape[1]:,} and {reference.shape[1]:,}"
        raise ValueError(f"features of {dims} dimensions cannot be compared; take both from one network")
    if not all(torch.isfinite(batch).all() for batch in (*samples.split(ROWS), *reference.split(ROWS))):
        raise FloatingPointError("features contain NaN or infinite values, so no metric can be computed")


def features_to_statistics(features: Tensor | Iterable[Tensor]) -> FeatureStatistics:
    """Sum features (n, d) float32, or batches of them, to their mean and covariance in float64, on their device.

    ADM's evaluator takes the mean in float32; the difference in FID is below 1e-5 relative.

    Raises:
        FloatingPointError: a feature is NaN or infinite.
        ValueError: there are no features.
    """
    batches = features.split(ROWS) if isinstance(features, Tensor) else features
    statistics: FeatureStatistics | None = None
    for batch in batches:
        if statistics is None:
            statistics = FeatureStatistics(batch.shape[1], batch.device)
        statistics.add(batch)
    if statistics is None or not statistics.count:
        raise ValueError("there are no features to sum")
    return statistics
