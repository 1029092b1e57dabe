"""Some of all pairs, where each costs a second and a law holds of one as of another."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def in_turn(some: Iterable[Any], others: Iterable[Any]) -> list[tuple[Any, Any]]:
    """Each of `some` with two of `others`, so that every one of these has its turn."""
    turns = [*others]
    return [(one, turns[(number + apart) % len(turns)]) for number, one in enumerate(some) for apart in (0, 2)]
