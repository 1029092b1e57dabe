"""Formulations of the costly operations, and whether this machine has them."""

from __future__ import annotations

KERNELS: dict[str, dict[str, str]] = {
    "attention": {
        "sdpa": "torch's scaled_dot_product_attention (fused where the device has it)",
        "math": "two batched products and a softmax: faster on a CPU up to a few hundred tokens",
    },
}


def resolve_kernels(chosen: dict[str, str], device_type: str) -> dict[str, str]:
    """A name for every kind in place of `auto`.

    Raises:
        ValueError: an unknown name, with the known ones.
    """
    best = {"attention": "sdpa" if device_type == "cuda" else "math"}
    resolved = {}
    for kind, known in KERNELS.items():
        name = chosen.get(kind, "auto")
        if name != "auto" and name not in known:
            raise ValueError(f"kernels.{kind}: {name!r} is unknown; choose auto, {' or '.join(known)}")
        resolved[kind] = best[kind] if name == "auto" else name
    return resolved


def availability(kind: str, name: str) -> str | None:
    """Why this machine cannot use a formulation; None where it can."""
    return None
