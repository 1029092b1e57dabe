"""FID of synthetic features in a process of its own: `python -m benchmarks.peers.fid ours|theirs COUNT WIDTH THREADS`.

Prints JSON: the distance, CPU and wall seconds without the making of the features, and the peak of the resident memory
above what it was after the imports.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits
from torch import Tensor
from torch_fidelity.metric_fid import KEY_METRIC_FID, fid_features_to_statistics, fid_statistics_to_metric

from tread_bench.measure.quality.fid.metric import statistics_to_fid
from tread_bench.measure.quality.statistics import FeatureStatistics, Gaussian
from tread_bench.measure.speed.throughput import peak_resident_mib

BATCH = 250
SIDES = ("theirs", "ours")


def batches(count: int, width: int) -> Iterator[Tensor]:
    """Features as of a network that ends in a mean of rectified maps: positive, correlated."""
    generator = torch.Generator().manual_seed(0)
    common = torch.randn(width, 8, generator=generator)
    for first in range(0, count, BATCH):
        rows = min(BATCH, count - first)
        shared = torch.randn(rows, 8, generator=generator) @ common.T
        yield (0.2 * shared + torch.randn(rows, width, generator=generator)).abs()


def reference_sigma(width: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """A covariance of the other side: full, with eigenvalues above 1/2."""
    factor = np.random.default_rng(0).standard_normal((width, 16)) / 4
    return 0.5 * np.eye(width) + factor @ factor.T


class Watch:
    """Counts CPU and wall seconds while it is entered."""

    def __init__(self) -> None:
        self.cpu_s = 0.0
        self.wall_s = 0.0

    def __enter__(self) -> None:
        self._began = time.process_time(), time.perf_counter()

    def __exit__(self, *raised: object) -> None:
        self.cpu_s += time.process_time() - self._began[0]
        self.wall_s += time.perf_counter() - self._began[1]


def ours(count: int, width: int, watch: Watch) -> float:
    """Sums that stream; no feature is kept, since FID needs none."""
    statistics = FeatureStatistics(width)
    for batch in batches(count, width):
        with watch:
            statistics.add(batch)
    with watch:
        mean, sigma = torch.zeros(width, dtype=torch.float64), torch.from_numpy(reference_sigma(width))
        return statistics_to_fid(statistics, Gaussian(mean, sigma))


def theirs(count: int, width: int, watch: Watch) -> float:
    """All features in memory, then NumPy's covariance, as torch-fidelity computes it."""
    features = []
    for batch in batches(count, width):
        features.append(batch)
    with watch:
        found = fid_features_to_statistics(torch.cat(features))
        reference = {"mu": np.zeros(width, found["mu"].dtype), "sigma": reference_sigma(width)}
        return float(fid_statistics_to_metric(found, reference, verbose=False)[KEY_METRIC_FID])


def main(side: str, count: int, width: int, threads: int) -> None:
    torch.set_num_threads(threads)
    threadpool_limits(threads, user_api="blas")
    before = peak_resident_mib()
    watch = Watch()
    distance = (ours if side == "ours" else theirs)(count, width, watch)
    found = {"fid": distance, "cpu_s": watch.cpu_s, "wall_s": watch.wall_s, "memory_mib": peak_resident_mib() - before}
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
