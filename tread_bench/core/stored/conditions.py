"""The conditions under which figures were measured, and which of these conditions can change figures. No torch."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from pathlib import PurePath
from typing import Annotated, Any, Literal

from pydantic import (
    ConfigDict,
    Field,
    JsonValue,
    NonNegativeInt,
    PositiveInt,
    SerializerFunctionWrapHandler,
    model_serializer,
)

from tread_bench.core.config.compute import StepOptions

# Another version of these may give other bits: draws come from numpy, layers from timm, metrics from torch-fidelity,
# fused scans from mamba-ssm, and the rest from this program and torch (already a numerical choice). Python, pandas and
# scikit-learn's digits do not change figures.
PLUG_IN = "plug-in "  # how the names of distributions begin that announce plug-ins, among the versions
_FIGURES_DEPEND_ON = ("tread-bench", "numpy", "timm", "torch-fidelity", "mamba-ssm")
# A measurement, the number of cells that run at a time, and the numbers of data workers and of processes, which leave
# draws the same: several processes change the last digits of sums.
_CHANGES_NO_FIGURE = ("matmul_relative_error", "device_count", "data_workers", "processes")

# OpenBLAS chooses its kernels by the microarchitecture, which neither a CPU's name nor its capability reveals. The
# last digits of figures computed with NumPy's linear algebra depend on it.
BLAS_KERNELS = "blas_kernels"


class Numerics(StepOptions):
    """Numerical choices and the machine where they were made. Values missing from a document are not written back."""

    model_config = ConfigDict(extra="allow")

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
    kernels: dict[str, str] = Field(default_factory=dict)
    draws: Literal["host", "device"] = "host"  # where a training step's random numbers come from

    def stated(self) -> dict[str, Any]:
        """Return the values that were given, by name, without defaults."""
        return {name: value for name, value in self if name in self.model_fields_set}

    @model_serializer(mode="wrap")
    def _without_defaults(self, serialize: SerializerFunctionWrapHandler) -> dict[str, JsonValue]:
        written: dict[str, JsonValue] = serialize(self)
        return {name: value for name, value in written.items() if name in self.model_fields_set}


class RunNumerics(Numerics):
    """Numerical choices of a run, with the values that its processes need."""

    device: Literal["cpu", "cuda"]
    threads: PositiveInt


class Conditions(Numerics):
    """Numerical choices and versions under which figures were measured."""

    versions: dict[str, str] = Field(default_factory=dict)
    processes: Annotated[PositiveInt, Field(exclude_if=lambda count: count == 1)] = 1  # that train a cell together
    begun_under: list[Conditions] = Field(default_factory=list)  # in a record: the conditions of its first steps
    timed_under: Conditions | None = None  # in a record: the conditions of its timing, if different


def decisive(conditions: Conditions) -> dict[str, JsonValue]:
    """Return what changes figures by more than the last digits of linear algebra, flat; versions by package."""
    without = (*_CHANGES_NO_FIGURE, BLAS_KERNELS, "versions", "plugins", "begun_under", "timed_under")
    chosen = {name: value for name, value in conditions.stated().items() if name not in without}
    if conditions.device == "cuda":
        chosen["draws"] = conditions.draws
    for package in _FIGURES_DEPEND_ON:
        chosen[package] = conditions.versions.get(package)
    return chosen | {name: version for name, version in conditions.versions.items() if name.startswith(PLUG_IN)}


def decisive_to_the_bit(conditions: Conditions) -> dict[str, JsonValue]:
    """Return what is decisive, with the number of processes, which changes the last digits of sums."""
    several: dict[str, JsonValue] = {"processes": conditions.processes} if conditions.processes > 1 else {}
    return decisive(conditions) | several


def by_file_name(value: Any, name_of: Callable[[PurePath], str] = attrgetter("name")) -> Any:
    """Return the same JSON with each absolute path reduced to its file's name, since paths differ between machines."""
    if isinstance(value, list):
        return [by_file_name(part, name_of) for part in value]
    if isinstance(value, dict):
        return {by_file_name(key, name_of): by_file_name(part, name_of) for key, part in value.items()}
    return name_of(PurePath(value)) if isinstance(value, str) and PurePath(value).is_absolute() else value


def differences(before: Conditions, now: Conditions) -> list[str]:
    """Describe every difference that changes figures; a plug-in that only one of the two has changes none."""
    old, new = decisive(before), decisive(now)
    on_one_side = {key for key in old.keys() ^ new.keys() if key.startswith(PLUG_IN)}
    keys = sorted((old.keys() | new.keys()) - on_one_side)
    return [f"{key} was {old.get(key)!r}, is {new.get(key)!r}" for key in keys if old.get(key) != new.get(key)]


def blas_kernels() -> str:
    """Return the kernels of NumPy's and SciPy's BLAS in this process: "SkylakeX", or the library's name where it does
    not report them.
    """
    import numpy  # noqa: F401  (loads the BLAS)
    from threadpoolctl import ThreadpoolController

    used = ThreadpoolController().select(user_api="blas").info()
    return ", ".join(sorted({library.get("architecture") or library["internal_api"] for library in used})) or "unknown"
