"""Findings of the contract checks for plug-ins."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tread_bench.core.errors import error_text

Tried = TypeVar("Tried")


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
    """Run checks and return the first finding of each, with the number of its others.

    An error that the plug-in raises is a finding, if there is no other.

    Args:
        first_decides: if the first check finds something, no other is run, since none would make sense.
    """
    violations: list[Violation] = []
    for check in checks:
        found: list[str] = []
        try:
            found.extend(check(subject))
        except Exception as error:  # whatever a plug-in raises, the other checks still run
            found = found or [f"raised {error_text(error)}"]
        if found:
            others = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
            violations.append(Violation(check.__name__.removeprefix("check_"), found[0] + others))
        if violations and first_decides:
            break
        first_decides = False
    return violations
