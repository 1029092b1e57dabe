"""The folder of published weights: files under the names that their projects give them. Nothing is downloaded."""

from __future__ import annotations

import os
from pathlib import Path

from tread_bench.core.describe.metrics import ExtractorOptions, Published, extractors
from tread_bench.core.errors import UserError
from tread_bench.core.stored.cache import cache_folder

VARIABLE = "TREAD_BENCH_WEIGHTS"


def weights_folder(given: str | Path | None = None) -> Path:
    """Return the folder that is given, or else named by $TREAD_BENCH_WEIGHTS, or else `weights` in the cache folder."""
    return Path(given or os.environ.get(VARIABLE) or cache_folder("weights"))


def find_weights(network: str, folder: str | Path | None = None) -> Path | None:
    """Return the published weights of a feature network in the folder of weights; None: they are not there.

    Raises:
        ValueError: there is no such network.
    """
    places = (weights_folder(folder) / one.file for one in extractors.find(network).published)
    return next((place for place in places if place.is_file()), None)


def with_weights(options: ExtractorOptions, folder: str | Path | None = None) -> ExtractorOptions:
    """Return a feature network's settings with the file in the folder of weights, where they name none.

    Raises:
        UserError: it is not there.
    """
    family = options.family
    if family.ships or any(family.files(options)) or "weights" not in type(options).model_fields:
        return options
    if (found := find_weights(family.name, folder)) is not None:
        return options.model_copy(update={"weights": str(found)})
    by_file = f"give its file, {{name: {family.name}, weights: FILE}}"
    if not family.published:
        raise UserError(f"feature network {family.name} needs a file of weights: {by_file}")
    files = " or ".join(f"{one.file} ({one.where})" for one in family.published)
    rule = f"its weights are not in {weights_folder(folder)}: put {files} there, or {by_file}"
    raise UserError(f"feature network {family.name}: {rule}")


def is_as_published(one: Published, sha256: str) -> bool | None:
    """Return whether a file's hash is that of the published one; None where no hash is published."""
    return sha256.startswith(one.sha256) if one.sha256 else None
