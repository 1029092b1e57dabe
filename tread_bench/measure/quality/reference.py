"""Statistics of the real images that generated ones are compared with, cached by the hash of their inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tread_bench.core.describe.metrics import MetricFamily, Needs
from tread_bench.core.errors import UserError
from tread_bench.data.check import message_of
from tread_bench.data.source import Pixels
from tread_bench.measure.quality.feature_store import features_of
from tread_bench.measure.quality.features import Extractor
from tread_bench.measure.quality.samples import ImageRecords, lacking
from tread_bench.measure.quality.statistics import Gaussian, Statistics
from tread_bench.measure.sets.reference import ReferenceSet, open_reference, spatial_name
from tread_bench.measure.sets.samples import SampleSet

if TYPE_CHECKING:
    from tread_bench.data.source import DataSource

REFERENCE_FEATURES = 10_000  # kept one by one for KID, precision and recall; FID uses all images, as ADM's files do
DRAWN_BY = 2020  # seed, as of KID's subsets
BATCH = 250  # images at a time


@dataclass(frozen=True, kw_only=True)
class Reference(ImageRecords):
    """What generated images are compared with.

    Args:
        sha256: of the real images, or of the file of their statistics.
        compared: which features were kept, in words, for the protocol.
    """

    sha256: str
    compared: str = f"at most {REFERENCE_FEATURES} for KID, precision and recall"

    def lacks(self, metric: MetricFamily) -> str:
        """Return, in words, what a metric reads of real images that are not there; empty if all is."""
        missing = [one for one in Needs if one in metric.needs_of_real and not self.has(one)]
        return lacking(missing[0], is_real=True) if missing else ""

    @property
    def count(self) -> int | None:
        """Number of images that mean and covariance are of; None: the file does not say."""
        return self.moments.count if self.moments is not None else None

    @property
    def num_kept(self) -> int:
        """Number of images whose features can be read one by one."""
        return self.statistics.num_kept if self.statistics is not None else 0


def reference_of(data: DataSource, extractor: Extractor) -> Reference:
    """Statistics of all real images, with the features of every n-th: the smallest n that keeps at most 10,000."""
    images = data.reference
    kept = np.arange(0, len(images), -(-len(images) // REFERENCE_FEATURES))
    seen = features_of(images, extractor, kept, BATCH, BATCH)
    labels = images.labels(kept) if data.num_classes and isinstance(images, Pixels) else None
    return Reference(seen.pooled, partial(images.batches, BATCH), labels, seen.spatial, sha256=images.sha256)


def reference_of_set(chosen: ReferenceSet, extractor: Extractor) -> Reference:
    """Statistics as a file states them, and those of its images for what it does not state.

    Raises:
        UserError: the file's statistics are of another feature network, or it has no images and none of this network.
    """
    stored = stored_statistics(chosen, extractor.name, extractor)
    if chosen.images is None and Needs.STATISTICS not in stored:
        names = " and ".join(chosen.stored)
        raise UserError(
            f"{chosen.name}: has statistics of {names}, none of feature network {extractor.name}, and no images; "
            "give a reference with images, or choose another metrics.extractor"
        )

    def see(images: SampleSet, kept: NDArray[np.int64]) -> Statistics:
        return features_of(images, extractor, kept, BATCH, BATCH)

    return assembled(chosen, stored, REFERENCE_FEATURES, Reference.compared, see)


def assembled(
    chosen: ReferenceSet,
    stored: Mapping[Needs, Gaussian],
    most: int,
    compared: str,
    see: Callable[[SampleSet, NDArray[np.int64]], Statistics] | None,
) -> Reference:
    """Return a reference: statistics that were stored go before those of its images.

    Args:
        most: images whose features are kept. Of more, they are drawn: the order of a file may be that of classes.
        compared: which features are kept, in words, where all are.
        see: (images, those that are kept one by one) -> statistics; None: nothing is read of the images.
    """
    # Its images: which features are kept, and their statistics.
    batches = pooled = spatial = None
    if (images := chosen.images) is not None:
        batches = partial(images.batches, BATCH)
        kept = np.sort(np.random.default_rng(DRAWN_BY).permutation(len(images))[:most])
        if len(kept) < len(images):
            compared = f"{len(kept)} for KID, precision and recall, drawn by seed {DRAWN_BY}"
        if see is not None:
            pooled, spatial = see(images, kept)

    # Stored statistics go before them.
    return Reference(
        pooled,
        batches,
        spatial=stored.get(Needs.SPATIAL) or spatial,
        published=stored.get(Needs.STATISTICS),
        sha256=chosen.sha256,
        compared=compared,
    )


def stored_statistics(chosen: ReferenceSet, network: str, extractor: Extractor) -> dict[Needs, Gaussian]:
    """Return the statistics that came with a reference, by what metrics read of them.

    Args:
        network: name that its features are stored under.

    Raises:
        UserError: they are of another network, or of other settings.
    """
    stored = {Needs.STATISTICS: chosen.gaussian(network, extractor.dims, extractor.settings)}
    if extractor.spatial_dims is not None:
        spatial = chosen.gaussian(spatial_name(network), extractor.spatial_dims, extractor.settings)
        stored[Needs.SPATIAL] = spatial
    return {need: found for need, found in stored.items() if found is not None}


def reference_problems(path: str) -> Iterator[str]:
    """A message for each mistake in a file that samples are compared with."""
    for message in message_of(open_reference, path):
        yield from message.splitlines()
