"""Features of sets of images, kept on disk: one .npz file for each set and network; one that is damaged is missing."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path

import numpy as np
import scipy
import torch
from numpy.typing import NDArray
from torch import Tensor

from tread_bench.core.stored.cache import cache_folder, one_at_a_time
from tread_bench.core.stored.conditions import blas_kernels
from tread_bench.core.stored.files import OutputError, replacing
from tread_bench.core.stored.foreign import open_file
from tread_bench.data.source import RealImages
from tread_bench.measure.quality.features import Extractor, Features, images_to_features, machine_of
from tread_bench.measure.quality.statistics import FeatureStatistics, Statistics, summed
from tread_bench.measure.sets.samples import SampleSet

_SUMS = 4  # version of how they are added up
_SPATIAL = "spatial_"  # begins the names of their arrays in a file


def features_of(
    images: RealImages,
    extractor: Extractor,
    kept: NDArray[np.int64],
    batch: int,
    at_once: int,
    device: torch.device | str = "cpu",
    has_logits: bool = False,
    progress: Callable[[int], None] = lambda done: None,
) -> Statistics:
    """Return sums over the features of all images, computed unless an earlier call has: other processes wait meanwhile.

    Args:
        kept: images whose features are kept one by one, ascending.
        batch: images that the network sees at a time.
        at_once: images whose features are added together: memory is that of these, and of what is kept.
        device: of sums and features.
        has_logits: whether the logits of all images are kept.
        progress: called with the number of images that are done.

    Raises:
        FloatingPointError: features that are not finite.
        UserError: the set has changed since it was opened.
    """

    def seen() -> Iterator[Features]:
        stream, done = images.batches(batch), 0
        while done < len(images):
            part = images_to_features(
                islice(stream, max(1, at_once // batch)),
                extractor,
                spatial=extractor.spatial_dims is not None,
                progress=lambda of_part, before=done: progress(before + of_part),  # type: ignore[misc]
            )
            done += len(part.pooled)
            yield part if has_logits else part._replace(logits=None)

    # What they depend on, last bits included: a cell has the same result whether it finds or computes them.
    preprocessing = f"uint8, grey repeated, float32, batch {batch}, {at_once} added together, on {device}"
    of_kept = hashlib.sha256(kept.astype("<i8").tobytes()).hexdigest()
    content = (images.sha256, len(images), of_kept, has_logits, extractor.sha256, extractor.spatial_dims, preprocessing)
    machine = (machine_of(extractor.device), scipy.__version__, blas_kernels())
    key = hashlib.sha256(repr((content, machine, _SUMS)).encode()).hexdigest()
    path = cache_folder("features") / f"{key}.npz"

    # Found, or computed and kept.
    with one_at_a_time(f"features-{key}"):
        found = load_statistics(path)
        if found is None:
            found = summed(seen(), kept, device)
            if isinstance(images, SampleSet):
                images.check_unchanged()
            save_statistics(found, path)
        else:
            progress(len(images))
    return found.to(device)


def save_statistics(statistics: Statistics, path: Path) -> None:
    """Write the sums, and the features and logits that are kept; where that is not possible, nothing is written."""
    tensors = {"features": statistics.features.cpu()}
    if statistics.logits is not None:
        tensors["logits"] = statistics.logits
    for prefix, sums in (("", statistics.pooled), (_SPATIAL, statistics.spatial)):
        if sums is not None:
            tensors[f"{prefix}count"] = torch.tensor(sums.count)
            tensors[f"{prefix}total"] = sums.total.cpu()
            tensors[f"{prefix}half"] = sums.half.cpu()
    with suppress(OSError, OutputError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary, temporary.open("wb") as file:
            np.savez(file, allow_pickle=False, **tensors)


def load_statistics(path: Path) -> Statistics | None:
    """Return what was saved, on the CPU; None where there is no such file, or it is damaged."""
    try:
        with open_file(path) as file, np.load(file, allow_pickle=False) as stored:
            tensors = {name: torch.from_numpy(stored[name]) for name in stored.files}
        spatial = _sums(tensors, _SPATIAL) if f"{_SPATIAL}count" in tensors else None
        return Statistics(_sums(tensors, ""), tensors["features"], tensors.get("logits"), spatial)
    except Exception:  # a damaged file may raise anything
        return None


def _sums(tensors: Mapping[str, Tensor], prefix: str) -> FeatureStatistics:
    sums = FeatureStatistics(0)
    sums.count = int(tensors[f"{prefix}count"])
    sums.total = tensors[f"{prefix}total"]
    sums.half = tensors[f"{prefix}half"]
    return sums
