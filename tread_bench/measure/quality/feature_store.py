"""Features of sets of images that are scored, kept on disk: one .npz file for each set and network."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from itertools import islice

import scipy

from tread_bench.core.stored.cache import cache_folder, one_at_a_time
from tread_bench.core.stored.conditions import blas_kernels
from tread_bench.measure.quality.features import Extractor, Features, images_to_features, machine_of
from tread_bench.measure.quality.reference import drawn
from tread_bench.measure.quality.statistics import ROWS, Statistics, summed
from tread_bench.measure.quality.statistics_file import load_statistics, save_statistics
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

    def seen() -> Iterator[Features]:
        """About a thousand images at a time, whatever their number: memory is that of what is kept."""
        stream, done = images.batches(batch), 0
        while done < images.count:
            part = images_to_features(
                islice(stream, max(1, ROWS // batch)),
                extractor,
                spatial=extractor.spatial_dims is not None,
                progress=lambda of_part, before=done: progress(before + of_part),  # type: ignore[misc]
            )
            done += len(part.pooled)
            yield part if len(kept) == images.count else part._replace(logits=None)

    # What they depend on, last bits included.
    kept = drawn(images.count, most)
    preprocessing = f"uint8, grey repeated, float32, batch {batch}"
    content = (images.sha256, images.count, len(kept), extractor.sha256, preprocessing, _SUMS)
    machine = (machine_of(extractor.device), scipy.__version__, blas_kernels())
    key = hashlib.sha256(repr((content, machine)).encode()).hexdigest()
    path = cache_folder("features") / f"{key}.npz"
    with one_at_a_time(f"features-{key}"):
        found = load_statistics(path)
        if found is None:
            found = summed(seen(), kept, extractor.device)
            images.check_unchanged()
            save_statistics(found, path)
        else:
            progress(images.count)
    return found.to(extractor.device)
