"""tread-bench: decide whether, where and how to route tokens in a diffusion backbone.

Importing this package is light: torch is imported when a backbone is built, not before.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tread_bench.core.families import BackboneSpec, Cost, Family, TokenOrder, create_backbone
    from tread_bench.core.routes import Route

__version__ = "0.1.0"

_HOMES = {
    "create_backbone": "registry",
    "Route": "routes",
    "Family": "registry",
    "BackboneSpec": "registry",
    "Cost": "registry",
    "TokenOrder": "registry",
}
__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
