"""Features of sets of images that are scored, kept on disk: one .npz file for each set and network."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from itertools import islice

import numpy as np
import scipy
import torch
from numpy.typing import NDArray

from tread_bench.core.stored.cache import cache_folder, one_at_a_time
from tread_bench.core.stored.conditions import blas_kernels
from tread_bench.measure.quality.features import Extractor, images_to_features, machine_of
from tread_bench.measure.quality.reference import drawn
from tread_bench.measure.quality.statistics import ROWS, FeatureStatistics
from tread_bench.measure.quality.statistics_file import Statistics, load_statistics, save_statistics
from tread_bench.measure.sets.samples import SampleSet

_SUMS = 2  # version of how they are added up


def features_of(
    images: SampleSet, extractor: Extractor, batch: int, most: int, progress: Callable[[int], None]
) -> Statistics:
    """Return sums over the features of all images, with the features themselves and, of a classifier, the logits, on
    the extractor's device; computed unless an earlier call has.

    Args:
        batch: images at a time.
        most: features and no logits are kept of so many images, drawn by a fixed seed, where there are more.
        progress: called with the number of images that are done.

    Raises:
        FloatingPointError: features that are not finite.
        UserError: the set has changed since it was opened.
    """
    kept = drawn(images.count, most)
    preprocessing = f"uint8, grey repeated, float32, batch {batch}"
    content = (images.sha256, images.count, len(kept), extractor.sha256, preprocessing, _SUMS)
    machine = (machine_of(extractor.device), scipy.__version__, blas_kernels())  # what changes last bits
    key = hashlib.sha256(repr((content, machine)).encode()).hexdigest()
    path = cache_folder("features") / f"{key}.npz"
    with one_at_a_time(f"features-{key}"):
        found = load_statistics(path)
        if found is None:
            found = _computed(images, extractor, batch, kept, progress)
            images.check_unchanged()
            save_statistics(found, path)
        else:
            progress(images.count)
    return found.to(extractor.device)


def _computed(
    images: SampleSet, extractor: Extractor, batch: int, kept: NDArray[np.int64], progress: Callable[[int], None]
) -> Statistics:
    """About a thousand images at a time, whatever their number: memory is that of what is kept."""
    device = extractor.device
    pooled = FeatureStatistics(extractor.dims, device)
    spatial = None if extractor.spatial_dims is None else FeatureStatistics(extractor.spatial_dims, device)
    features = torch.empty(len(kept), extractor.dims)
    logits = None
    stream = images.batches(batch)
    while pooled.count < images.count:
        done = pooled.count
        part = images_to_features(
            islice(stream, max(1, ROWS // batch)),
            extractor,
            spatial=spatial is not None,
            progress=lambda of_part, before=done: progress(before + of_part),  # type: ignore[misc]
        )
        pooled.add(part.pooled.to(device), kept=slice(0))
        first, last = np.searchsorted(kept, (done, pooled.count))
        features[first:last] = part.pooled[kept[first:last] - done]
        if spatial is not None and part.spatial is not None:
            spatial.add(part.spatial.to(device), kept=slice(0))
        if part.logits is not None and len(kept) == images.count:
            logits = torch.empty(len(kept), part.logits.shape[1]) if logits is None else logits
            logits[first:last] = part.logits
    return Statistics(pooled.keeping(features.to(device), logits), spatial)
