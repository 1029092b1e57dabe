"""Features of a set of images, and sums over them that stream and merge: what torch-fidelity's metrics lack."""

from __future__ import annotations

import torch
from torch import Tensor


class FeatureStatistics:
    """Float64 sums over features (n, d), and the features and logits themselves; adds up over batches and processes.

    Args:
        dims: length d of a feature vector.
    """

    def __init__(self, dims: int) -> None:
        self.count = 0
        self.total = torch.zeros(dims, dtype=torch.float64)
        self.outer = torch.zeros(dims, dims, dtype=torch.float64)
        self._features: list[Tensor] = []
        self._logits: list[Tensor] = []

    def add(self, features: Tensor, logits: Tensor | None = None, kept: slice = slice(None)) -> None:
        """Add features (B, d); the first `kept` of them, and the logits, are kept individually."""
        if not torch.isfinite(features).all():
            raise FloatingPointError("features contain NaN or infinite values, so no metric can be computed")
        features_BD = features.double()
        self.count += len(features_BD)
        self.total += features_BD.sum(0)
        self.outer += features_BD.T @ features_BD
        self._features.append(features[kept])
        if logits is not None:
            self._logits.append(logits)

    @classmethod
    def restored(cls, count: int, total: Tensor, outer: Tensor, features: Tensor) -> FeatureStatistics:
        """From sums and kept features that were stored."""
        statistics = cls(len(total))
        statistics.count = count
        statistics.total = total
        statistics.outer = outer
        statistics._features = [features]
        return statistics

    def merge(self, other: FeatureStatistics) -> FeatureStatistics:
        """The statistics of both, with this one's kept features first."""
        merged = FeatureStatistics(len(self.total))
        merged.count = self.count + other.count
        merged.total = self.total + other.total
        merged.outer = self.outer + other.outer
        merged._features = self._features + other._features
        merged._logits = self._logits + other._logits
        return merged

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
        return (self.outer - self.count * torch.outer(self.mean, self.mean)) / (self.count - 1)
