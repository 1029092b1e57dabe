"""Environment variables: what is started or imported under other ones than those that are there."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module


@contextmanager
def variables(**values: str) -> Iterator[None]:
    """Set environment variables, and restore them at the end."""
    before = {name: os.environ.pop(name, None) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


def import_matplotlib() -> None:
    """Import Matplotlib, also where the user's settings of it are damaged or name a backend that is not installed."""
    if "matplotlib" in sys.modules:
        return
    with variables(MPLBACKEND="", MATPLOTLIBRC=os.devnull):
        matplotlib = import_module("matplotlib")
    with suppress(ValueError):  # our pictures depend on neither: they are for what the user draws in this process
        matplotlib.rc_file(matplotlib.matplotlib_fname())
    with suppress(KeyError, ValueError):
        matplotlib.rcParams["backend"] = os.environ["MPLBACKEND"]
