"""What samples are compared with: published statistics, images of a data source, or images in a file or folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tread_bench.core.describe.data_sources import DataOptions, data_sources
from tread_bench.core.errors import UserError, collected
from tread_bench.core.names import unknown
from tread_bench.core.stored.data_files import content_sha256
from tread_bench.data.check import data_problems
from tread_bench.data.image_folder.listing import SUFFIXES
from tread_bench.data.open import open_data
from tread_bench.data.source import Pixels, RealImages
from tread_bench.measure.quality.statistics import Gaussian
from tread_bench.measure.sets.gaussians import gaussians_of, stored_names
from tread_bench.measure.sets.npz import Npz
from tread_bench.measure.sets.npz_images import IMAGES, NpzStore
from tread_bench.measure.sets.samples import SampleSet, open_images
from tread_bench.suite.data import data_of, is_settings
from tread_bench.suite.load import shipped_suites

_SUITE_SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True)
class ReferenceSet:
    """What samples are compared with: images, statistics that were stored, or both.

    Args:
        name: of the file, folder, data source or suite.
        sha256: hash of the file's content, or of the images.
        images: None where there are statistics alone.
        stored: by the features that they are of: "inception", "inception_spatial", "dinov2".
    """

    name: str
    sha256: str
    images: SampleSet | None
    stored: Mapping[str, Gaussian] = field(default_factory=dict)

    def gaussian(self, features: str, dims: int, settings: Mapping[str, Any]) -> Gaussian | None:
        """Stored statistics of these features; None where there are none.

        Args:
            dims: length of a feature vector of the network that samples are seen by.
            settings: of that network.

        Raises:
            UserError: the stored ones have another length, so they are of another network, or are of other settings.
        """
        found = self.stored.get(features)
        names = " and ".join(stored_names().get(features, (features,)))
        if found is not None and len(found.mean) != dims:
            raise UserError(
                f"{self.name}: {names} are of {len(found.mean):,} features where this network has {dims:,}; give a "
                "reference of the same network, or images alone"
            )
        if found is not None and found.settings not in (None, settings):
            option = " and ".join(f"{key}_{features}" for key in {**found.settings, **settings})
            raise UserError(
                f"{self.name}: {names} are of {_written(features, found.settings)}, and this network is "
                f"{_written(features, settings)}; choose the network that they are of, or correct {option} in the file"
            )
        return found


def _written(network: str, settings: Mapping[str, Any]) -> str:
    """A network as a suite and the command line name it."""
    return f"{{{', '.join(f'{key}: {value}' for key, value in {'name': network, **settings}.items())}}}"


@dataclass(frozen=True)
class DataStore:
    """Real images of a data source."""

    images: RealImages
    shape: tuple[int, int, int]  # (C, H, W)

    @classmethod
    def of(cls, images: RealImages) -> DataStore:
        """Raises UserError where the first image cannot be read."""
        _, channels, height, width = next(images.batches(1)).shape
        return cls(images, (channels, height, width))

    @property
    def count(self) -> int:
        return len(self.images)

    @property
    def sha256(self) -> str:
        """Hash of content and order."""
        return self.images.sha256

    def batches(self, size: int, start: int) -> Iterator[Tensor]:
        """(B, C, H, W) uint8. Raises UserError."""
        if isinstance(self.images, Pixels):
            for first in range(start, self.count, size):
                yield self.images.uint8(np.arange(first, min(first + size, self.count)))
            return
        images = (image for batch in self.images.batches(size) for image in batch)
        rest = islice(images, start, None)
        while batch := list(islice(rest, size)):
            yield torch.stack(batch)


def open_reference(text: str | Path, data_root: Path | None = None) -> ReferenceSet:
    """Open what samples are compared with.

    Args:
        text: an .npz file with any of ADM's arrays (`mu` and `sigma`, `mu_s` and `sigma_s`, images `arr_0`) or EDM2's
            (`mu_dinov2` and `sigma_dinov2` beside the first); a folder of image files of one size; a data source by
            its name, or with settings as a suite writes them; a suite, by file or name, for its real images.
        data_root: folder that `$data_root` in paths stands for; None: the working directory.

    Raises:
        UserError: all mistakes, with file and member.

    Source of the names: Dhariwal and Nichol 2021, guided_diffusion, evaluations/evaluator.py; Karras et al. 2024, EDM2,
    calculate_metrics.py.
    """
    # Settings, a folder or a file.
    text = str(text)
    path = Path(text)
    if is_settings(text):
        return _of_data(data_of(text, data_root=data_root))
    if path.is_dir():
        images = open_images(path, SUFFIXES)
        return ReferenceSet(images.name, images.sha256, images)
    if path.exists():
        if text.lower().endswith(_SUITE_SUFFIXES):
            return _of_data(data_of(text, data_root=data_root), path.stem)
        return _of_npz(Npz(path))

    # A name.
    if text in data_sources():
        return _of_data(data_of(f"{{name: {text}}}"))
    if text in shipped_suites():
        return _of_data(data_of(text, data_root=data_root), text)
    known = [*data_sources(), *shipped_suites()]
    raise UserError(f"{text}: no such file or folder (looked in {Path.cwd()}), and {unknown('name', text, known)}")


def _of_npz(npz: Npz) -> ReferenceSet:
    """Images, statistics or both. Raises UserError with all mistakes."""
    problems: list[str] = []
    images = None
    stored: dict[str, Gaussian] = {}
    if IMAGES in npz.names:
        with collected(problems):
            store = NpzStore.open(npz)
            images = SampleSet(npz.path.stem, store.labels, store)
    with collected(problems):
        stored = gaussians_of(npz)
    if not problems and images is None and not stored:
        pairs = ", ".join(" and ".join(names) for names in stored_names().values())
        problems.append(f"{npz.path}: holds {npz.in_words()}; a reference holds {pairs}, or images {IMAGES}")
    if problems:
        raise UserError("\n".join(problems))
    return ReferenceSet(npz.path.stem, content_sha256(str(npz.path)), images, stored)


def _of_data(options: DataOptions, name: str | None = None) -> ReferenceSet:
    """The real images of a data source. Raises UserError."""
    if problems := data_problems([(options, True)]):
        raise UserError("\n".join(problems))
    source = open_data(options)
    real: RealImages | None = source.real_images
    labels = None
    if real is None and isinstance(source.train, Pixels):
        real = source.train
        labels = source.train.classes if options.num_classes else None
    if real is None:
        raise UserError(f"data {options.name}: no real images, which samples could be compared with; name other data")
    images = SampleSet(name or options.name, labels, DataStore.of(real))
    return ReferenceSet(images.name, images.sha256, images)
