"""What `plan --detect` requests. Without scipy, which takes longer to load than a plan to show."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from tread_bench.core.errors import UserError


@dataclass(frozen=True, slots=True)
class DetectRequest:
    """The difference in FID to find, and the spread of paired differences: stated, or that of a run."""

    difference: float
    spread: float | None = None
    run: Path | None = None

    @classmethod
    def of(cls, difference: float | None, spread: float | None, run: Path | None) -> DetectRequest | None:
        """Return what these options request; None where nothing is to be found. Raises UserError."""
        if difference is None:
            if spread is None and run is None:
                return None
            option = "--from" if spread is None else "--spread"
            raise UserError(f"{option} is the spread of the differences that --detect is about: add --detect FID")
        problems = []
        for option, value in (("--detect", difference), ("--spread", spread)):
            if value is not None and not 0 < value < math.inf:
                problems.append(f"{option} {value:g}: must be a finite number above 0, in FID")
        if (spread is None) == (run is None):
            given = "neither was given" if run is None else "both were given"
            problems.append(
                "--detect needs one spread, either the standard deviation of paired differences (--spread S) or a "
                f"finished run that shows it (--from RUN): {given}"
            )
        if problems:
            raise UserError("\n".join(problems))
        return cls(difference, spread, run)
