"""What a comparison found: one entry per cell and figure, and the exit status that follows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """The verdict on one figure of one cell."""

    PASS = "pass"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"
    UNFIT = "not fit to judge"  # the machine was not quiet
    SKIPPED = "not compared"  # the two were measured under conditions that are not comparable; neither is at fault


@dataclass(frozen=True, slots=True)
class Finding:
    """A figure of a cell, the verdict on it and why; `accepted` and `measured` are texts for people."""

    cell: str
    kind: str  # presence, exact, speed, memory or quality
    figure: str
    verdict: Verdict
    accepted: str
    measured: str
    reason: str = ""


def exit_status(findings: Iterable[Finding]) -> int:
    """0: all passed; 1: something is worse; 3: nothing is known to be worse, and something is inconclusive."""
    verdicts = {finding.verdict for finding in findings}
    if Verdict.FAIL in verdicts:
        return 1
    return 3 if verdicts & {Verdict.INCONCLUSIVE, Verdict.UNFIT} else 0
