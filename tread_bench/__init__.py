"""tread-bench: decide whether, where and how to route tokens in a diffusion backbone.

Importing this package is light: what a name needs is imported when the name is asked for, torch with the first network.
"""

from __future__ import annotations

import ast
from functools import cache
from importlib import import_module
from pathlib import Path

__version__ = "0.1.0"


@cache
def _modules() -> dict[str, str]:
    """Return the module of each public name; the stub beside this file lists them."""
    stub = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    modules = {}
    for statement in stub.body:
        if isinstance(statement, ast.ImportFrom):
            modules.update({alias.name: str(statement.module) for alias in statement.names})
    return modules


def __getattr__(name: str) -> object:
    if name == "__all__":
        return __dir__()
    if name == "draws":  # a module
        return import_module(f"{__name__}.core.numbers.draws")
    if name not in _modules():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_modules()[name]), name)


def __dir__() -> list[str]:
    return sorted({"__version__", *_modules()})
