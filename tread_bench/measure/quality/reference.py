"""Statistics of the real images that generated ones are compared with, cached by the hash of their inputs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from tread_bench.core.describe.metrics import MetricFamily, Needs
from tread_bench.core.errors import UserError
from tread_bench.core.stored.cache import cache_folder, one_at_a_time
from tread_bench.data.check import message_of
from tread_bench.data.source import Pixels
from tread_bench.measure.quality.features import Extractor, machine_of
from tread_bench.measure.quality.samples import ImageRecords, lacking
from tread_bench.measure.quality.statistics import Gaussian, summed
from tread_bench.measure.quality.statistics_file import load_statistics, save_statistics
from tread_bench.measure.sets.reference import ReferenceSet, open_reference, spatial_name

if TYPE_CHECKING:
    from tread_bench.data.source import DataSource, RealImages

REFERENCE_FEATURES = 10_000  # kept one by one for KID, precision and recall; FID uses all images, as ADM's files do
DRAWN_BY = 2020  # seed, as of KID's subsets
_BATCH = 250


@dataclass(frozen=True, kw_only=True)
class Reference(ImageRecords):
    """What generated images are compared with.

    Args:
        sha256: of the real images, or of the file of their statistics.
        compared: which features were kept, in words, for the protocol.
        stated: what is read of statistics in a file, and not of the reference's images.
    """

    sha256: str
    compared: str = f"at most {REFERENCE_FEATURES} for KID, precision and recall"
    stated: frozenset[Needs] = frozenset()

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
    """Statistics of all real images, computed once per cache folder: other processes wait for them meanwhile."""
    images = data.reference
    labels = images.classes if data.num_classes and isinstance(images, Pixels) else None
    return _of_images(images, labels, _evenly(len(images)), extractor)


def reference_of_set(chosen: ReferenceSet, extractor: Extractor) -> Reference:
    """Statistics as a file states them, and those of its images for what it does not state.

    Raises:
        UserError: the file's statistics are of another feature network, or it has no images and none of this network.
    """
    # What the file states.
    stored = stored_statistics(chosen, extractor.name, extractor)
    published = stored.get(Needs.STATISTICS)
    stated = frozenset(stored)
    images = chosen.images
    if images is None:
        if published is None:
            names = " and ".join(chosen.stored)
            raise UserError(
                f"{chosen.name}: has statistics of {names}, none of feature network {extractor.name}, and no images; "
                "give a reference with images, or choose another metrics.extractor"
            )
        of_file = stored.get(Needs.SPATIAL)
        return Reference(None, spatial=of_file, published=published, sha256=chosen.sha256, stated=stated)

    # Its images: those whose features are kept are drawn, since files are often in the order of classes.
    kept = drawn(len(images), REFERENCE_FEATURES)
    compared = Reference.compared
    if len(kept) < len(images):
        compared = f"{len(kept)} for KID, precision and recall, drawn by seed {DRAWN_BY}"
    found = _of_images(images, None, kept, extractor, compared)
    spatial = stored.get(Needs.SPATIAL) or found.spatial
    return replace(found, spatial=spatial, published=published, sha256=chosen.sha256, stated=stated)


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


def _of_images(
    images: RealImages,
    labels: NDArray[np.int64] | None,
    kept: NDArray[np.int64],
    extractor: Extractor,
    compared: str = Reference.compared,
) -> Reference:
    """Statistics of all images, from the cache folder if they are there; features and labels of those in `kept`."""
    key = _key(images, extractor, compared)
    path = cache_folder("reference") / f"{key}.npz"
    with one_at_a_time(key):
        found = load_statistics(path)
        if found is None:
            has_spatial = extractor.spatial_dims is not None
            seen = (extractor.features(pixels, has_spatial) for pixels in images.batches(_BATCH))
            found = summed((features._replace(logits=None) for features in seen), kept)
            save_statistics(found, path)
    of_kept = None if labels is None else torch.from_numpy(labels[kept])
    batches = partial(images.batches, _BATCH)
    return Reference(found.pooled, batches, of_kept, found.spatial, sha256=images.sha256, compared=compared)


def _key(images: RealImages, extractor: Extractor, compared: str) -> str:
    """Contents, preprocessing, and what changes last bits: a cell has the same result whether it finds or makes one."""
    preprocessing = f"uint8, grey repeated, float32, at most {REFERENCE_FEATURES} kept, batch {_BATCH}"
    outputs = compared, extractor.spatial_dims
    content = (images.sha256, extractor.sha256, preprocessing, outputs, machine_of(extractor.device))
    return hashlib.sha256(repr(content).encode()).hexdigest()


def _evenly(count: int) -> NDArray[np.int64]:
    """Every n-th image, with the smallest n that keeps at most 10,000: the data of a cell."""
    return np.arange(0, count, -(-count // REFERENCE_FEATURES))


def drawn(count: int, most: int) -> NDArray[np.int64]:
    """That many images, or all of fewer: of a file, whose order may be that of classes, or follow them in turn."""
    return np.sort(np.random.default_rng(DRAWN_BY).permutation(count)[:most])
