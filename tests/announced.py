"""Plug-ins of distributions that are not installed."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from tread_bench.core.describe import plugins


class Distribution(NamedTuple):
    name: str
    version: str = "1"

    def read_text(self, file: str) -> str | None:
        return "pip" if file == "INSTALLER" else None


def point(name: str, load: Callable[[], Any], distribution: object) -> SimpleNamespace:
    """What a distribution announces under a name."""
    return SimpleNamespace(name=name, value="x:X", load=load, dist=distribution)


def announce(monkeypatch: pytest.MonkeyPatch, *found: tuple[Any, str]) -> None:
    """Let exactly these descriptions be announced, each by a distribution of that name."""
    points = [point(one.name, lambda one=one: one, Distribution(name)) for one, name in found]  # type: ignore[misc]
    monkeypatch.setattr(plugins, "points_of", lambda group: points)
