"""Findings of the contract checks for plug-ins."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tread_bench.core.errors import error_text

Tried = TypeVar("Tried")

# Where a fault shows: names in quotes, numbers, routes, and the parts of a data source.
_PLACE = re.compile(r"(?:'[^']*'|\S*\d\S*|route \S+ \(\w+\)|\b(?:dense|train|held_out)\b|\s)+")


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that a plug-in breaks: the check that reports it, what was expected and what was found."""

    check: str
    message: str

    def __str__(self) -> str:
        return f"{self.check}: {self.message}"


def run_checks(
    checks: Sequence[Callable[[Tried], Iterator[str]]], subject: Tried, *, first_decides: bool = False
) -> list[Violation]:
    """Run checks and return all findings, in order.

    Args:
        first_decides: if the first check finds something, no other is run, since none would make sense.
    """
    decided = run_check(checks[0], subject) if first_decides else []
    others = checks[1:] if first_decides else checks
    return decided or [violation for check in others for violation in run_check(check, subject)]


def run_check(check: Callable[[Tried], Iterator[str]], subject: Tried) -> list[Violation]:
    """Run one check and return its findings, one for each fault, wherever it shows; an error that the plug-in
    raises is a finding if there is no other.
    """
    # Messages that differ in the place alone report one fault.
    found: dict[str, list[str]] = {}
    try:
        for message in check(subject):
            found.setdefault(_PLACE.sub(" ", message), []).append(message)
    except Exception as error:  # whatever a plug-in raises, the other checks still run
        found = found or {"": [f"raised {error_text(error)}"]}

    # The first message of each fault, and how many others there are.
    name = check.__name__.removeprefix("check_")
    return [
        Violation(name, first + (f" (and {len(others)} more)" if others else "")) for first, *others in found.values()
    ]
