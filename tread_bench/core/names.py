"""Names in messages: the one that a misspelt name probably meant, and the first of many."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name nearest to `name`, ignoring case, or None if none is near."""
    by_folded = {candidate.casefold(): candidate for candidate in known}
    match = get_close_matches(str(name).casefold(), by_folded, n=1, cutoff=0.6)
    return by_folded[match[0]] if match else None


def unknown(kind: str, name: object, known: Iterable[str]) -> str:
    """Return the message for an unknown name: the value, the nearest known name, and the list of all."""
    known = list(known)
    meant = nearest(str(name), known)
    hint = f"did you mean {meant!r}? " if meant else ""
    return f"unknown {kind} {name!r}; {hint}known: {', '.join(known)}"


def few(names: Sequence[str], most: int) -> str:
    """Return the first names and how many more there are, such as "a, b, c and 1,997 more"."""
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest:,} more" if rest > 0 else "")
