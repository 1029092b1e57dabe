"""The conditions under which figures came about, and which of them change figures. No torch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

# Draws come from numpy, layers from timm, metrics from torch-fidelity, fused scans from mamba-ssm, and all else from
# this program and torch, which is a numerical choice already: another version may give other bits. Python, pandas and
# scikit-learn's digits do not.
_FIGURES_DEPEND_ON = ("tread-bench", "numpy", "timm", "torch-fidelity", "mamba-ssm")
# A measurement, how many cells run at a time, and how many threads of one draw what any number of them draws alike.
_CHANGES_NO_FIGURE = ("matmul_relative_error", "device_count", "data_workers")

# OpenBLAS chooses its kernels by the microarchitecture, which neither the name of a CPU nor its capability tells. The
# last digits of figures that pass through NumPy's linear algebra depend on them, so these compare within a tolerance.
BLAS_KERNELS = "blas_kernels"
LINEAR_ALGEBRA = ("fid", "kid")  # among the figures of an evaluation; all others come from torch
LINEAR_ALGEBRA_TOLERANCE = 1e-9  # relative

EARLIER, TIMED = "begun_under", "timed_under"  # in a record's conditions: those of its first steps, of its timing


def conditions(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Numerical choices and versions of a run, from its plan.json."""
    return {**plan["numerics"], "versions": plan["versions"]}


def decisive(conditions: Mapping[str, Any]) -> dict[str, Any]:
    """What changes figures by more than the last digits of linear algebra, flat; versions by package."""
    without = (*_CHANGES_NO_FIGURE, BLAS_KERNELS, "versions", EARLIER, TIMED)
    versions = conditions.get("versions", {})
    chosen = {key: value for key, value in conditions.items() if key not in without}
    return chosen | {package: versions.get(package) for package in _FIGURES_DEPEND_ON}


def is_same_figure(name: str, a: float | None, b: float | None) -> bool:
    """Whether two values of a figure are what equal conditions give: equal bits, but for the kernels of a BLAS."""
    if a is None or b is None or name not in LINEAR_ALGEBRA:
        return a == b
    return math.isclose(a, b, rel_tol=LINEAR_ALGEBRA_TOLERANCE)


def by_file_name(value: Any) -> Any:
    """The same JSON with every file by its name, wherever it lies on a machine."""
    if isinstance(value, list):
        return [by_file_name(part) for part in value]
    if isinstance(value, dict):
        return {name: by_file_name(part) for name, part in value.items()}
    return PurePath(value).name if isinstance(value, str) and PurePath(value).is_absolute() else value


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """In words, all that changes figures and is not the same."""
    old, new = decisive(before), decisive(now)
    keys = sorted(old.keys() | new.keys())
    return [f"{key} was {old.get(key)!r}, is {new.get(key)!r}" for key in keys if old.get(key) != new.get(key)]


def all_of(conditions: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """A record's conditions, with those that it was begun or timed under."""
    timed = conditions.get(TIMED)
    return [conditions, *conditions.get(EARLIER, []), *([timed] if timed else [])]


def spread(found: list[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Every decisive condition that is not the same in all of `found`, with its values."""
    flat = [decisive(one) for one in found]
    keys = sorted({key for one in flat for key in one})
    values = {key: sorted({str(one.get(key)) for one in flat}) for key in keys}
    return {key: some for key, some in values.items() if len(some) > 1}
