"""Features of a set of images, and sums over them that stream and merge: what torch-fidelity's metrics lack."""

from __future__ import annotations

import torch
from scipy.linalg.blas import dsyrk
from torch import Tensor


class FeatureStatistics:
    """Float64 sums over features (n, d), and the features and logits themselves; adds up over batches and processes.

    Args:
        dims: length d of a feature vector.
    """

    def __init__(self, dims: int) -> None:
        self.count = 0
        self.total = torch.zeros(dims, dtype=torch.float64)
        self._half = torch.zeros(dims, dims, dtype=torch.float64)  # of the sum of outer products: the lower triangle
        self._features: list[Tensor] = []
        self._logits: list[Tensor] = []

    def add(self, features: Tensor, logits: Tensor | None = None, kept: slice = slice(None)) -> None:
        """Add features (B, d); the first `kept` of them, and the logits, are kept individually."""
        if not torch.isfinite(features).all():
            raise FloatingPointError("features contain NaN or infinite values, so no metric can be computed")
        features_BD = features.double()
        self.count += len(features_BD)
        self.total += features_BD.sum(0)
        upper = self._half.numpy().T  # in Fortran's order, so BLAS adds in place
        self._half = torch.from_numpy(dsyrk(1.0, features_BD.numpy().T, beta=1.0, c=upper, overwrite_c=True).T)
        self._features.append(features[kept].clone())  # a view would hold the whole batch
        if logits is not None:
            self._logits.append(logits)

    @classmethod
    def restored(cls, count: int, total: Tensor, outer: Tensor, features: Tensor) -> FeatureStatistics:
        """From sums and kept features that were stored."""
        statistics = cls(len(total))
        statistics.count = count
        statistics.total = total
        statistics._half = outer.tril()
        statistics._features = [features]
        return statistics

    def merge(self, other: FeatureStatistics) -> FeatureStatistics:
        """The statistics of both, with this one's kept features first."""
        merged = FeatureStatistics(len(self.total))
        merged.count = self.count + other.count
        merged.total = self.total + other.total
        merged._half = self._half + other._half
        merged._features = self._features + other._features
        merged._logits = self._logits + other._logits
        return merged

    @property
    def outer(self) -> Tensor:
        """The sum of the features' outer products with themselves (d, d), float64."""
        return self._half + self._half.tril(-1).T

    @property
    def features(self) -> Tensor:
        """The kept features (m, d), float32."""
        return torch.cat(self._features)

    @property
    def has_logits(self) -> bool:
        return bool(self._logits)

    @property
    def logits(self) -> Tensor:
        """(n, classes) float32, of all images."""
        return torch.cat(self._logits)

    @property
    def mean(self) -> Tensor:
        """(d,) float64."""
        return self.total / self.count

    @property
    def covariance(self) -> Tensor:
        """(d, d) float64, unbiased (n - 1)."""
        centred = self.outer.addr_(self.mean, self.mean, alpha=-self.count)
        return centred.div_(self.count - 1)
