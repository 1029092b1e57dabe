"""The folder of published weights: files under the names that their projects give them. Nothing is downloaded."""

from __future__ import annotations

import os
from pathlib import Path

from tread_bench.core.describe.metrics import ExtractorFamily, ExtractorOptions, Published, find_extractor
from tread_bench.core.errors import UserError
from tread_bench.core.stored.cache import cache_folder
from tread_bench.core.stored.data_files import content_sha256

VARIABLE = "TREAD_BENCH_WEIGHTS"


class MissingWeightsError(UserError):
    """A feature network whose weights are not on this machine; the text says where they are published."""


def weights_folder(given: str | Path | None = None) -> Path:
    """Return the folder that is given, or else named by $TREAD_BENCH_WEIGHTS, or else `weights` in the cache folder."""
    return Path(given or os.environ.get(VARIABLE) or cache_folder("weights"))


def find_weights(network: str, folder: str | Path | None = None) -> Path | None:
    """Return the published weights of a feature network in the folder of weights; None: they are not there.

    Raises:
        ValueError: there is no such network.
    """
    places = (weights_folder(folder) / one.file for one in find_extractor(network).published)
    return next((place for place in places if place.is_file()), None)


def with_weights(options: ExtractorOptions, folder: str | Path | None = None) -> ExtractorOptions:
    """Return a feature network's settings with the file in the folder of weights, where they name none.

    Raises:
        MissingWeightsError: it is not there.
    """
    family = options.family
    if family.ships or any(family.files(options)) or "weights" not in type(options).model_fields:
        return options
    if (found := find_weights(family.name, folder)) is None:
        raise MissingWeightsError(_missing(family, weights_folder(folder)))
    return options.model_copy(update={"weights": str(found)})


def _missing(family: ExtractorFamily, folder: Path) -> str:
    by_file = f"give its file, {{name: {family.name}, weights: FILE}}"
    if not family.published:
        return f"feature network {family.name} needs a file of weights: {by_file}"
    files = " or ".join(f"{one.file} ({one.where})" for one in family.published)
    return f"feature network {family.name}: its weights are not in {folder}: put {files} there, or {by_file}"


def is_as_published(one: Published, sha256: str) -> bool | None:
    """Return whether a file's hash is that of the published one; None where no hash is published."""
    return sha256.startswith(one.sha256) if one.sha256 else None


def is_published(options: ExtractorOptions) -> bool | None:
    """Return whether a feature network's file is one that its project publishes; None where no hash is published, or
    it reads none.
    """
    family = options.family
    hashes = [content_sha256(file) for _, file in family.files(options)]
    answers = {is_as_published(one, sha256) for one in family.published for sha256 in hashes}
    return True if True in answers else False if answers == {False} else None
