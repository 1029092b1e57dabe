"""Documents of older versions, brought up to this one: each step a pure function from one version to the next."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from tread_bench.core.errors import UserError
from tread_bench.core.files import WAY_OUT
from tread_bench.core.records import SCHEMA_VERSION

Kind = Literal["record", "plan", "cell"]  # record.json and outcome.json, plan.json, cell.json: one version for all


class VersionError(UserError):
    """A document of a version that this program does not know."""


def known_version(version: object, newest: int, path: Path, way_out: str = WAY_OUT) -> int:
    """A `schema_version` that was read from `path`.

    Raises:
        VersionError: it is not a version, or newer than `newest`, the newest that this program reads.
    """
    if type(version) is not int or version < 1:
        raise VersionError(f"{path}: schema_version {version!r} is not a version; {way_out}")
    if version > newest:
        raise VersionError(
            f"{path} was written by a newer tread-bench (schema_version {version}; this one reads up to {newest}): "
            "update tread-bench"
        )
    return version


def migrated(content: dict[str, Any], kind: Kind, path: Path, way_out: str = WAY_OUT) -> dict[str, Any]:
    """`content`, read from `path`, as this version writes it.

    Raises:
        VersionError: it was written by a newer version, or its version is not valid.
    """
    version = content.get("schema_version", 1)  # plan.json and cell.json of version 1 do not say it
    for step in range(known_version(version, SCHEMA_VERSION, path, way_out), SCHEMA_VERSION):
        content = _STEPS[step](content, kind)
    return {**content, "schema_version": SCHEMA_VERSION}


def _from_1(content: dict[str, Any], kind: Kind) -> dict[str, Any]:
    """Attempts were not kept."""
    return {**content, "attempts": []} if kind == "record" else content


_STEPS: dict[int, Callable[[dict[str, Any], Kind], dict[str, Any]]] = {1: _from_1}
