"""Metrics that break one rule each, as builders of precision and recall."""

from __future__ import annotations

import torch

from tread_bench.measure.quality.precision_recall.metric import PrecisionRecall


class WithOtherNames(PrecisionRecall):
    def __call__(self, generated, real):
        return {"Precision": 0.5, "Recall": 0.5}


class ComparesHalves(PrecisionRecall):
    """Sorted by label, the first half is of other digits than the second."""

    def __call__(self, generated, real):
        half = len(generated.features) // 2
        first, second = (part.mean(0) for part in (generated.features[:half], generated.features[half:]))
        figures = super().__call__(generated, real)
        return {**figures, "recall": float(figures["recall"]) * (0.5 if (first - second).norm() > 2 else 1)}


class MeanOfBatches(PrecisionRecall):
    """The last batch, which is smaller, counts as much as the others."""

    def __call__(self, generated, real):
        levels = [[float(batch.float().mean()) for batch in images.batches()] for images in (generated, real)]
        means = [sum(of_set) / len(of_set) for of_set in levels]
        return {**super().__call__(generated, real), "recall": 1 - abs(means[0] - means[1])}


class DrawsAnew(PrecisionRecall):
    def __call__(self, generated, real):
        figures = super().__call__(generated, real)
        return {**figures, "recall": float(figures["recall"]) - 1e-3 * float(torch.rand(()))}
