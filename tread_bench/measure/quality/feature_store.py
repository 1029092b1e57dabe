"""Features of sets of images, kept on disk: one .npz file for each set and network; one that is damaged is missing."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

import numpy as np
import scipy
import torch
from numpy.typing import NDArray

from tread_bench.core.stored.cache import cache_folder, one_at_a_time
from tread_bench.core.stored.conditions import blas_kernels
from tread_bench.core.stored.files import OutputError, replacing
from tread_bench.core.stored.foreign import open_file
from tread_bench.data.source import RealImages
from tread_bench.measure.quality.features import Extractor, Features, images_to_features, machine_of
from tread_bench.measure.quality.statistics import FeatureStatistics, Statistics, summed
from tread_bench.measure.sets.samples import SampleSet

_SUMS = 4  # version of how they are added up
_PREFIXES = ("", "spatial_")  # of the arrays in a file


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
    return found.to(torch.device(device))


def save_statistics(statistics: Statistics, path: Path) -> None:
    """Write the sums, and the features and logits that are kept; where that is not possible, nothing is written."""
    pooled = statistics.pooled
    arrays = {"features": pooled.features.cpu().numpy()}
    if pooled.has_logits:
        arrays["logits"] = pooled.logits.numpy()
    for prefix, part in zip(_PREFIXES, statistics, strict=True):
        if part is not None:
            arrays[f"{prefix}count"] = np.array(part.count)
            arrays[f"{prefix}total"] = part.total.cpu().numpy()
            arrays[f"{prefix}half"] = part.half.cpu().numpy()
    with suppress(OSError, OutputError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary, temporary.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)


def load_statistics(path: Path) -> Statistics | None:
    """Return what was saved, on the CPU; None where there is no such file, or it is damaged."""
    try:
        with open_file(path) as file, np.load(file, allow_pickle=False) as stored:
            arrays = {name: torch.from_numpy(stored[name]) for name in stored.files}
        found = []
        for prefix, features, logits in zip(
            _PREFIXES, (arrays["features"], torch.empty(0)), (arrays.get("logits"), None), strict=True
        ):
            if f"{prefix}count" in arrays:
                count, total, half = (arrays[f"{prefix}{name}"] for name in ("count", "total", "half"))
                found.append(FeatureStatistics.restored(int(count), total, half, features, logits))
        return Statistics(*found)
    except Exception:  # a damaged file may raise anything
        return None
