"""The conditions under which figures came about, and which of them change figures. No torch."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import PurePath
from typing import Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    NonNegativeInt,
    PositiveInt,
    SerializerFunctionWrapHandler,
    model_serializer,
)

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


class Numerics(BaseModel):
    """Numerical choices and the machine that they were made on. What a document does not say is not written either."""

    model_config = ConfigDict(frozen=True, extra="allow", allow_inf_nan=False)

    device: Literal["cpu", "cuda"] | None = None
    device_count: NonNegativeInt = 1
    device_name: str = ""
    cpu_capability: str = ""
    blas_kernels: str = ""
    torch: str = ""
    threads: PositiveInt | None = None
    matmul_precision: Literal["highest", "high", "medium"] | None = None
    matmul_relative_error: float | None = None
    tf32: bool = False
    autocast: Literal["none", "bfloat16", "float16"] = "none"
    compile: bool = False
    gradient_checkpointing: bool = False
    micro_batch: PositiveInt | None = None
    data_workers: NonNegativeInt = 2
    kernels: dict[str, str] = Field(default_factory=dict)

    def stated(self) -> dict[str, Any]:
        """The values that were given, by name; no defaults."""
        return {name: value for name, value in self if name in self.model_fields_set}

    @model_serializer(mode="wrap")
    def _without_defaults(self, serialize: SerializerFunctionWrapHandler) -> dict[str, JsonValue]:
        written: dict[str, JsonValue] = serialize(self)
        return {name: value for name, value in written.items() if name in self.model_fields_set}


class RunNumerics(Numerics):
    """Those of a run: what its processes need is there."""

    device: Literal["cpu", "cuda"]
    threads: PositiveInt


class Conditions(Numerics):
    """Numerical choices and versions that figures came about under."""

    versions: dict[str, str] = Field(default_factory=dict)
    begun_under: list[Conditions] = Field(default_factory=list)  # in a record: those of its first steps
    timed_under: Conditions | None = None  # in a record: those of its timing, where they are others

    @classmethod
    def of(cls, numerics: Numerics, versions: dict[str, str]) -> Conditions:
        """Those of a machine."""
        return cls(**numerics.stated(), versions=versions)


def decisive(conditions: Conditions) -> dict[str, JsonValue]:
    """What changes figures by more than the last digits of linear algebra, flat; versions by package."""
    without = (*_CHANGES_NO_FIGURE, BLAS_KERNELS, "versions", "begun_under", "timed_under")
    chosen = {name: value for name, value in conditions.stated().items() if name not in without}
    return chosen | {package: conditions.versions.get(package) for package in _FIGURES_DEPEND_ON}


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


def differences(before: Conditions, now: Conditions) -> list[str]:
    """In words, all that changes figures and is not the same."""
    old, new = decisive(before), decisive(now)
    keys = sorted(old.keys() | new.keys())
    return [f"{key} was {old.get(key)!r}, is {new.get(key)!r}" for key in keys if old.get(key) != new.get(key)]


def all_of(conditions: Conditions) -> list[Conditions]:
    """A record's conditions, with those that it was begun or timed under."""
    timed = [conditions.timed_under] if conditions.timed_under else []
    return [conditions, *conditions.begun_under, *timed]


def spread(found: Iterable[Conditions]) -> dict[str, list[str]]:
    """Every decisive condition that is not the same in all of `found`, with its values."""
    flat = [decisive(one) for one in found]
    keys = sorted({key for one in flat for key in one})
    values = {key: sorted({str(one.get(key)) for one in flat}) for key in keys}
    return {key: some for key, some in values.items() if len(some) > 1}
