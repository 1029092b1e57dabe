"""What generated images are compared with: real images, and statistics that came with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from tread_bench.core.describe.metrics import Needs
from tread_bench.data.check import message_of
from tread_bench.data.source import DataSource, Pixels, RealImages
from tread_bench.measure.quality.feature_store import features_of
from tread_bench.measure.quality.features import Extractor
from tread_bench.measure.quality.samples import Reference
from tread_bench.measure.quality.statistics import Statistics
from tread_bench.measure.sets.reference import ReferenceSet, open_reference, spatial_name

REFERENCE_FEATURES = 10_000  # kept one by one for KID, precision and recall; FID uses all images, as ADM's files do
DRAWN_BY = 2020  # seed, as of KID's subsets
BATCH = 250  # images at a time
COMPARED = f"at most {REFERENCE_FEATURES} for KID, precision and recall"

See = Callable[[RealImages, NDArray[np.int64]], Statistics]  # images, and those that are kept one by one


def reference_of(data: DataSource, extractor: Extractor) -> Reference:
    """The real images of a cell's data, with the features of every n-th: the smallest n that keeps at most 10,000."""
    images = data.reference
    kept = np.arange(0, len(images), -(-len(images) // REFERENCE_FEATURES))
    counts, labels = _counts(images, kept, extractor), None
    if data.num_classes and isinstance(images, Pixels):
        labels = images.labels(kept)
        counts[Needs.LABELS] = len(kept)
    return Reference(
        sha256=images.sha256,
        compared=COMPARED,
        counts=counts,
        see=lambda: features_of(images, extractor, kept, BATCH, BATCH),
        batches=partial(images.batches, BATCH),
        labels=labels,
    )


def reference_of_set(
    chosen: ReferenceSet,
    extractor: Extractor,
    network: str,
    see: See,
    most: int = REFERENCE_FEATURES,
    compared: str = COMPARED,
    device: torch.device | str = "cpu",
) -> Reference:
    """Statistics as a file states them, and its images for what it does not state.

    Args:
        network: name that the statistics of its features are stored under.
        see: what the network makes of images.
        most: images whose features are kept. Of more, they are drawn: the order of a file may be that of classes.
        compared: which features are kept, in words, where all are.
        device: of features and statistics.

    Raises:
        UserError: the file's statistics are of another feature network, or of other settings.
    """
    found = {Needs.STATISTICS: chosen.gaussian(network, extractor.dims, extractor.settings)}
    if extractor.spatial_dims is not None:
        found[Needs.SPATIAL] = chosen.gaussian(spatial_name(network), extractor.spatial_dims, extractor.settings)
    stored = {need: one.to(torch.device(device)) for need, one in found.items() if one is not None}
    counts = {need: one.count for need, one in stored.items()}
    alone = Reference(sha256=chosen.sha256, compared=compared, counts=counts, stored=stored)
    if (images := chosen.images) is None:
        return alone

    # Its images.
    kept = np.sort(np.random.default_rng(DRAWN_BY).permutation(len(images))[:most])
    if len(kept) < len(images):
        compared = f"{len(kept)} for KID, precision and recall, drawn by seed {DRAWN_BY}"
    return replace(
        alone,
        compared=compared,
        counts=_counts(images, kept, extractor) | counts,
        see=lambda: see(images, kept),
        batches=partial(images.batches, BATCH),
    )


def _counts(images: RealImages, kept: NDArray[np.int64], extractor: Extractor) -> dict[Needs, int | None]:
    """What can be read of images, with how many there are."""
    counts: dict[Needs, int | None] = dict.fromkeys((Needs.STATISTICS, Needs.IMAGES), len(images))
    if extractor.spatial_dims is not None:
        counts[Needs.SPATIAL] = len(images)
    return counts | {Needs.FEATURES: len(kept)}


def reference_problems(path: str) -> Iterator[str]:
    """A message for each mistake in a file that samples are compared with."""
    for message in message_of(open_reference, path):
        yield from message.splitlines()
