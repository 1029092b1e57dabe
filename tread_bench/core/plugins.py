"""Code that is named as text, "module:attribute": how a lower room starts a higher one, and plug-ins build networks."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def named(target: str) -> Any:
    """What "module:attribute" names, imported now.

    Raises:
        ImportError: there is no such module; AttributeError: it has no such attribute.
    """
    module, _, attribute = target.partition(":")
    return getattr(import_module(module), attribute)
