"""Formulations of the costly operations, and which of them this machine supports."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec

from tread_bench.core.errors import UserError

# torch: on any device; math: batched products and a softmax, faster than sdpa on a CPU up to a few hundred tokens;
# numba: compiled on a CPU; mamba_ssm, triton: kernels for CUDA.
KERNELS: dict[str, tuple[str, ...]] = {
    "attention": ("sdpa", "math"),
    "adaln": ("torch", "numba"),
    "scan": ("torch", "numba", "mamba_ssm"),
    "wkv": ("torch", "numba", "triton"),
    "recurrence": ("torch", "numba"),
}
_AUTO: dict[str, dict[str, tuple[str, ...]]] = {  # by type of device: the first available one is used
    "attention": {"cpu": ("math",), "cuda": ("sdpa",)},
    "adaln": {"cpu": ("numba", "torch"), "cuda": ("torch",)},
    "scan": {"cpu": ("numba", "torch"), "cuda": ("mamba_ssm", "torch")},
    "wkv": {"cpu": ("numba", "torch"), "cuda": ("triton", "torch")},
    "recurrence": {"cpu": ("numba", "torch"), "cuda": ("torch",)},
}
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
    for kind in KERNELS:
        name = chosen.get(kind, "auto")
        if name == "auto":
            name = next(candidate for candidate in _AUTO[kind][device_type] if missing(candidate, device_type) is None)
        why = missing(name, device_type)
        if why is not None:
            raise UserError(f"kernels.{kind}: {name} cannot be used here: {why}; choose auto")
        resolved[kind] = name
    return resolved
