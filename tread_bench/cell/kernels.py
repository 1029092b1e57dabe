"""Which formulations of the costly operations this machine supports, and which of them a run takes."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import get_args

from tread_bench.core.config.compute import Kernels
from tread_bench.core.errors import UserError

KERNELS = {kind: get_args(field.annotation)[1:] for kind, field in Kernels.model_fields.items()}
_NEEDS = {  # the only type of device that a formulation runs on, and its import
    "mamba_ssm": ("cuda", "selective_scan_cuda"),
    "numba": ("cpu", "numba"),
    "triton": ("cuda", "triton"),
}


def missing(name: str, device_type: str) -> str | None:
    """Return why a formulation cannot be used on that type of device; None if it can."""
    if name not in _NEEDS:
        return None
    device, module = _NEEDS[name]
    if device != device_type:
        return "needs a CUDA device" if device == "cuda" else "needs a CPU"
    return f"module {module} is not installed" if find_spec(module) is None else None


def resolve_kernels(chosen: Mapping[str, str], device_type: str) -> dict[str, str]:
    """Replace `auto` by a name for every kind; a requested name never falls back to another.

    Raises:
        ValueError: a name is unavailable on this machine; the message names the way out.
    """
    resolved = {}
    for kind, names in KERNELS.items():
        name = chosen.get(kind, "auto")
        if name == "auto":
            name = [candidate for candidate in names if missing(candidate, device_type) is None][-1]
            if name == "math" and device_type == "cuda":  # where it runs, and is slower
                name = "sdpa"
        why = missing(name, device_type)
        if why is not None:
            raise UserError(f"kernels.{kind}: {name} cannot be used here: {why}; choose auto")
        resolved[kind] = name
    return resolved
