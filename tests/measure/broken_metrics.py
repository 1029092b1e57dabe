"""Metrics that break one rule each, as builders of precision and recall."""

from __future__ import annotations

import torch

from tread_bench.measure.quality.precision_recall.metric import PrecisionRecall


class WithOtherNames(PrecisionRecall):
    def __call__(self, generated, real):
        return {"Precision": 0.5, "Recall": 0.5}


class NotANumber(PrecisionRecall):
    def __call__(self, generated, real):
        return {**super().__call__(generated, real), "recall": float("nan")}


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


class ReadsLabels(PrecisionRecall):
    def __call__(self, generated, real):
        assert len(generated.labels)
        return super().__call__(generated, real)


class ReadsRealLogits(PrecisionRecall):
    def __call__(self, generated, real):
        assert len(generated.logits) == len(real.logits)
        return super().__call__(generated, real)


class KernelDistance:
    """Keeps its contract: squared MMD with the cubic kernel over all pairs, which of a set with itself is 0."""

    cross = 2.0

    def __init__(self, options):
        pass

    def __call__(self, generated, real):
        return {"fid": self.distance(generated.features.double(), real.features.double())}

    def distance(self, x, y):
        return float(self.own(x) + self.own(y) - self.cross * kernel(x, y).mean())

    def own(self, x):
        return kernel(x, x).mean()


class Unbiased(KernelDistance):
    """Keeps its contract: it is not 0 of a set with itself, where one term alone has pairs of an image with itself."""

    def own(self, x):
        values = kernel(x, x)
        return (values.sum() - values.trace()) / (len(x) * (len(x) - 1))


class OfSubsets(Unbiased):
    """Keeps its contract: the mean over subsets that are drawn by a fixed seed."""

    def distance(self, x, y):
        generator = torch.Generator().manual_seed(0)
        values = []
        for _ in range(30):
            of_x, of_y = (part[torch.randperm(len(part), generator=generator)[:100]] for part in (x, y))
            values.append(super().distance(of_x, of_y))
        return sum(values) / len(values)


class CrossOf19(KernelDistance):
    cross = 1.9


class CrossOf199(KernelDistance):
    cross = 1.99


class UnbiasedCrossOf19(Unbiased):
    cross = 1.9


class CrossOfSubsetsOf19(OfSubsets):
    cross = 1.9


def kernel(x, y):
    return (x @ y.T / x.shape[1] + 1) ** 3
