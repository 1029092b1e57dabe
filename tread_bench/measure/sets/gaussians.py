"""Statistics of features as published references store them: mean and covariance, checked before they are used."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import ValidationError

from tread_bench.core.describe.extractors import ExtractorFamily, extractors, settings_of
from tread_bench.core.errors import UserError, collected
from tread_bench.core.problems import validation_problems
from tread_bench.measure.quality.statistics import Gaussian
from tread_bench.measure.sets.npz import Npz

COUNTS = ("num_images", "count")  # of the images behind the statistics; EDM2's name and ours
_FLOATS = ("float64", "float32")
_MOST_DIMS = 8192  # of features; DINOv2's are 1,024, Inception's 2,048
_LONGEST_TEXT = 1024  # bytes
_ASYMMETRY = 1e-5  # of the largest entry, which float32 sums in another order stay below
_INDEFINITE = 1e-5  # of the largest variance, which eigenvalues may be below zero: float32 rounds so


def stored_names() -> dict[str, tuple[str, str]]:
    """Return the arrays of mean and covariance, by the name of the features that they are of."""
    found = {}
    for family in extractors().values():
        if family.stored_as is not None:
            found[family.name] = family.stored_as
        if family.spatial_stored_as is not None:
            found[spatial_name(family.name)] = family.spatial_stored_as
    return found


def spatial_name(network: str) -> str:
    """Return the name of the spatial features of a network."""
    return f"{network}_spatial"


def gaussians_of(npz: Npz) -> dict[str, Gaussian]:
    """Read the statistics of an .npz file, by the features that they are of.

    Raises:
        UserError: all mistakes: one of a pair is missing; they have another type or shape than a mean and a covariance,
            are NaN or infinite, not symmetric, or have a negative variance in some direction.
    """
    problems: list[str] = []
    found: dict[str, Gaussian] = {}
    count = None
    with collected(problems):
        count = _count(npz)
    for features, names in stored_names().items():
        missing = [name for name in names if name not in npz.names]
        if len(missing) == 1:
            problems.append(f"{npz.path}: no {missing[0]}, and {' and '.join(names)} belong together; store both")
        elif not missing:
            with collected(problems):
                found[features] = _gaussian(npz, *names, count)
    for family in extractors().values():
        if family.name in found and family.stored_with:
            with collected(problems):
                found[family.name] = replace(found[family.name], settings=_settings(npz, family))
    if problems:
        raise UserError("\n".join(problems))
    return found


def _gaussian(npz: Npz, mean_name: str, covariance_name: str, count: int | None) -> Gaussian:
    # Shapes, by headers alone.
    problems: list[str] = []
    for name, dims in ((mean_name, 1), (covariance_name, 2)):
        with collected(problems):
            _check_header(npz, name, dims)
    if problems:
        raise UserError("\n".join(problems))
    (size,), square = npz.header(mean_name).shape, npz.header(covariance_name).shape
    if square != (size, size):
        raise UserError(
            f"{npz.path}: {covariance_name} has shape {square} where {mean_name} has {size:,} values; a covariance of "
            f"them has shape {(size, size)}"
        )

    # Values.
    mean = npz.array(mean_name, 8 * _MOST_DIMS).astype(np.float64)
    covariance = npz.array(covariance_name, 8 * _MOST_DIMS**2).astype(np.float64)
    _check_values(npz, mean_name, mean, covariance_name, covariance)
    return Gaussian(torch.from_numpy(mean), torch.from_numpy(np.ascontiguousarray(covariance)), count)


def _check_header(npz: Npz, name: str, dims: int) -> None:
    header = npz.header(name)
    where = f"{npz.path}: {name} is {header.dtype.name} of shape {header.shape}"
    if header.dtype.name not in _FLOATS:
        raise UserError(f"{where}; statistics are {' or '.join(_FLOATS)}")
    if len(header.shape) != dims or not 0 < header.shape[0] <= _MOST_DIMS:
        form = "(d,)" if dims == 1 else "(d, d)"
        raise UserError(f"{where}; expected {form} with d from 1 to {_MOST_DIMS:,}")


def _check_values(
    npz: Npz, mean_name: str, mean: NDArray[np.float64], covariance_name: str, covariance: NDArray[np.float64]
) -> None:
    """Raises UserError."""
    for name, values in ((mean_name, mean), (covariance_name, covariance)):
        if wrong := values.size - np.count_nonzero(np.isfinite(values)):
            raise UserError(
                f"{npz.path}: {name} has {wrong:,} values that are NaN or infinite; compute the statistics again"
            )
    where = f"{npz.path}: {covariance_name}"
    largest = float(np.abs(covariance).max())
    asymmetry = float(np.abs(covariance - covariance.T).max())
    if asymmetry > _ASYMMETRY * largest:
        raise UserError(
            f"{where} is not symmetric (entries differ from their mirror images by up to {asymmetry:.3g}), so it is "
            "not a covariance; compute the statistics again"
        )
    if not _is_semidefinite(covariance):
        lowest = float(np.linalg.eigvalsh(covariance)[0])
        raise UserError(
            f"{where} has the eigenvalue {lowest:.3g}, and a covariance has none below zero; compute the statistics "
            "again"
        )


def _is_semidefinite(covariance: NDArray[np.float64]) -> bool:
    """Whether no eigenvalue is below zero but by rounding: Cholesky finds it out in a tenth of the time."""
    size = len(covariance)
    tolerance = _INDEFINITE * float(np.abs(np.diagonal(covariance)).max()) or np.finfo(np.float64).tiny
    try:
        np.linalg.cholesky(covariance + tolerance * np.eye(size))
    except np.linalg.LinAlgError:
        return False
    return True


def _count(npz: Npz) -> int | None:
    """Of the images behind the statistics. Raises UserError."""
    for name in COUNTS:
        if name in npz.names:
            count = int(_single(npz, name, "iu", 8, "integer"))
            if count < 2:
                raise UserError(f"{npz.path}: {name} is {count}; a covariance is of two images or more")
            return count
    return None


def _settings(npz: Npz, family: ExtractorFamily) -> dict[str, Any]:
    """Of the feature network, as the file says them. Raises UserError."""
    said = {key: _text(npz, f"{key}_{family.name}", value) for key, value in family.stored_with.items()}
    try:
        return settings_of(family.options.model_validate({"name": family.name, **said}))
    except ValidationError as error:
        found = validation_problems(error, family.options)
        raise UserError("\n".join(f"{npz.path}: {one.loc[-1]}_{family.name}: {one.message}" for one in found)) from None


def _text(npz: Npz, name: str, otherwise: str) -> str:
    """A text that the file holds, or another one where it does not. Raises UserError."""
    if name not in npz.names:
        return otherwise
    return str(_single(npz, name, "U", _LONGEST_TEXT, "text"))


def _single(npz: Npz, name: str, kinds: str, most_bytes: int, word: str) -> Any:
    """The only value of an array, of one of these kinds of NumPy types, which `word` names. Raises UserError."""
    header = npz.header(name)
    if header.dtype.kind not in kinds or header.shape not in ((), (1,)):
        raise UserError(f"{npz.path}: {name} is {header.dtype.name} of shape {header.shape}, not one {word}")
    return npz.array(name, most_bytes).item()
