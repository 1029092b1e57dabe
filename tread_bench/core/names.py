"""Names: in messages, the one that a misspelt name probably meant, and the first of many; of cells."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches


def unknown(kind: str, name: object, known: Iterable[str]) -> str:
    """Return the message for an unknown name: the value, the nearest known name in any case, and all."""
    by_folded = {candidate.casefold(): candidate for candidate in known}
    near = get_close_matches(str(name).casefold(), by_folded, n=1, cutoff=0.6)
    hint = f"did you mean {by_folded[near[0]]!r}? " if near else ""
    return f"unknown {kind} {name!r}; {hint}known: {', '.join(by_folded.values())}"


def few(names: Sequence[str], most: int) -> str:
    """Return the first names and how many more there are, such as "a, b, c and 1,997 more"."""
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest:,} more" if rest > 0 else "")


def cell_id(row: str, seed: int, row_key: str) -> str:
    """Return the id of a row's cell, which is also the name of its folder.

    Args:
        row_key: hash of the resolved configuration.
    """
    slug = re.sub(r"[^a-z0-9_.]+", "-", row.lower())[:48].strip("-_.")
    return f"{slug}-s{seed}-{row_key}"


def canonical_json(value: object) -> str:
    """Return the canonical text of a JSON value: sorted keys, no spaces, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
