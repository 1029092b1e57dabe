"""What samples are compared with: published statistics, images of a data source, or images in a file or folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import ValidationError

from tread_bench.core.describe.data_sources import DataOptions, data_sources
from tread_bench.core.describe.metrics import ExtractorFamily, extractors, settings_of
from tread_bench.core.errors import UserError
from tread_bench.core.names import unknown
from tread_bench.core.problems import validation_problems
from tread_bench.core.stored.data_files import content_sha256
from tread_bench.data.check import data_problems
from tread_bench.data.image_folder.listing import SUFFIXES
from tread_bench.data.source import open_data
from tread_bench.measure.quality.statistics import Gaussian
from tread_bench.measure.sets.npz import Npz
from tread_bench.measure.sets.samples import IMAGES, SampleSet, of_npz, open_samples
from tread_bench.suite.load import data_of, is_settings, shipped_suites

_SUITE_SUFFIXES = (".yaml", ".yml")
_COUNT = "num_images"  # behind statistics, as EDM2 calls it
_MOST_BYTES = 8 * 8192**2  # of a covariance; DINOv2 has 1,024 features, Inception 2,048
_LONGEST_TEXT = 1024  # bytes
_ASYMMETRY = 1e-5  # of the largest entry, which float32 sums in another order stay below
_INDEFINITE = 1e-5  # of the largest variance, which eigenvalues may be below zero: float32 rounds so


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
        if found is None:
            return None
        theirs = settings if found.settings is None else found.settings
        if len(found.mean) != dims or theirs != settings:
            raise UserError(
                f"{self.name}: its statistics of {features} are of {len(found.mean):,} features under the settings "
                f"{dict(theirs)}, and this network has {dims:,} under {dict(settings)}; name the network that they are "
                "of, or say its settings in the file (docs/methods/image-sets.md)"
            )
        return found


def open_reference(text: str | Path, data_root: Path | None = None) -> ReferenceSet:
    """Open what samples are compared with.

    Args:
        text: an .npz file with any of ADM's arrays (`mu` and `sigma`, `mu_s` and `sigma_s`, images `arr_0`) or EDM2's
            (`mu_dinov2` and `sigma_dinov2` beside the first); images in an .npy file; a folder of image files of one
            size; a data source by its name, or with settings as a suite writes them; a suite, by file or name, for its
            real images.
        data_root: folder that `$data_root` in paths stands for; None: the working directory.

    Raises:
        UserError: it is none of these, with file and member.

    Source of the names: Dhariwal and Nichol 2021, guided_diffusion, evaluations/evaluator.py; Karras et al. 2024, EDM2,
    calculate_metrics.py.
    """
    # Settings, a folder or a file.
    text = str(text)
    path = Path(text)
    if is_settings(text):
        return _of_data(data_of(text, data_root=data_root))
    if path.is_dir() or (path.exists() and path.suffix.lower() == ".npy"):
        images = open_samples(path, suffixes=SUFFIXES)
        return ReferenceSet(images.name, images.sha256, images)
    if path.exists() and text.lower().endswith(_SUITE_SUFFIXES):
        return _of_data(data_of(text, data_root=data_root), path.stem)
    if path.exists():
        return _of_npz(Npz(path))

    # A name.
    if text in data_sources():
        return _of_data(data_of(f"{{name: {text}}}"))
    if text in shipped_suites():
        return _of_data(data_of(text, data_root=data_root), text)
    known = [*data_sources(), *shipped_suites()]
    raise UserError(f"{text}: no such file or folder (looked in {Path.cwd()}), and {unknown('name', text, known)}")


def _of_data(options: DataOptions, name: str | None = None) -> ReferenceSet:
    """The real images of a data source. Raises UserError."""
    if problems := data_problems([(options, True)]):
        raise UserError("\n".join(problems))
    try:
        real = open_data(options).reference
    except UserError:
        raise UserError(f"data {options.name}: no real images to compare samples with; name other data") from None
    _, channels, height, width = next(iter(real.batches(1))).shape
    shape = (channels, height, width)
    images = SampleSet(name or options.name, len(real), shape, lambda: real.sha256, real.batches)
    return ReferenceSet(images.name, images.sha256, images)


def _of_npz(npz: Npz) -> ReferenceSet:
    """Images, statistics or both. Raises UserError."""
    # How many images are behind statistics, if it says so.
    count: int | None = None
    if _COUNT in npz.names:
        found = npz.array(_COUNT, _LONGEST_TEXT)
        if found.dtype.kind not in "iu" or found.size != 1 or found.item() < 2:
            raise UserError(f"{npz.path}: {_COUNT} is {found}; it must be the number of images, 2 or more")
        count = int(found.item())

    # The statistics of each network, and the images.
    stored = {}
    for family in extractors().values():
        pairs = {family.name: family.stored_as, spatial_name(family.name): family.spatial_stored_as}
        for features, names in pairs.items():
            if names is not None and not set(names).isdisjoint(npz.names):
                settings = _settings(npz, family) if family.stored_with else None
                stored[features] = _gaussian(npz, names, count, settings)
    images = of_npz(npz) if IMAGES in npz.names or not stored else None
    return ReferenceSet(npz.path.stem, content_sha256(str(npz.path)), images, stored)


# Statistics that were stored


def spatial_name(network: str) -> str:
    """Return the name of the spatial features of a network."""
    return f"{network}_spatial"


def _gaussian(npz: Npz, names: tuple[str, str], count: int | None, settings: Mapping[str, Any] | None) -> Gaussian:
    """Mean (d,) and covariance (d, d), float64. Raises UserError."""
    # Their form.
    mean, covariance = (npz.array(name, _MOST_BYTES) for name in names)
    forms = [f"{array.dtype} of shape {array.shape}" for array in (mean, covariance)]
    is_float = mean.dtype.kind == covariance.dtype.kind == "f"
    if not is_float or mean.ndim != 1 or not len(mean) or covariance.shape != (len(mean), len(mean)):
        raise UserError(
            f"{npz.path}: {names[0]} is {forms[0]}, {names[1]} {forms[1]}; a mean is of shape (d,), its covariance of "
            "shape (d, d), both float64 or float32"
        )

    # Their values.
    mean, covariance = mean.astype(np.float64), np.array(covariance, np.float64, order="C")
    if not (np.isfinite(mean).all() and np.isfinite(covariance).all() and _is_covariance(covariance)):
        raise UserError(
            f"{npz.path}: {' and '.join(names)} are no mean and covariance: all values are finite, and a covariance is "
            "symmetric, without an eigenvalue below zero; compute the statistics again"
        )
    return Gaussian(torch.from_numpy(mean), torch.from_numpy(covariance), count, settings)


def _is_covariance(matrix: np.ndarray[Any, Any]) -> bool:
    """Whether a finite matrix is symmetric and has no eigenvalue below zero, but for rounding."""
    if np.abs(matrix - matrix.T).max() > _ASYMMETRY * np.abs(matrix).max():
        return False
    tolerance = _INDEFINITE * float(np.abs(np.diagonal(matrix)).max()) or np.finfo(np.float64).tiny
    try:
        np.linalg.cholesky(matrix + tolerance * np.eye(len(matrix)))  # a tenth of the time of eigenvalues
    except np.linalg.LinAlgError:
        return False
    return True


def _settings(npz: Npz, family: ExtractorFamily) -> dict[str, Any]:
    """Of the feature network, as the file says them. Raises UserError."""
    said = {}
    for key, otherwise in family.stored_with.items():
        name = f"{key}_{family.name}"
        said[key] = str(npz.array(name, _LONGEST_TEXT)) if name in npz.names else otherwise
    try:
        return settings_of(family.options.model_validate({"name": family.name, **said}))
    except ValidationError as error:
        found = next(iter(validation_problems(error, family.options)))
        raise UserError(f"{npz.path}: {found.loc[-1]}_{family.name}: {found.message}") from None
