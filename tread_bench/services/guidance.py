"""`--guidance`: a rule of guidance as a suite writes it, on the command line."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pydantic import TypeAdapter, ValidationError

from tread_bench.core.config.choices import GuidanceChoice
from tread_bench.core.config.sampling import Sampling
from tread_bench.core.describe.guidance import GuidanceOptions
from tread_bench.core.problems import SuiteError, validation_problems
from tread_bench.suite.yaml import read_value


def changed_sampling(sampling: Sampling, guidance: str | None, **changes: Any) -> Sampling:
    """`sampling` with a rule as typed and with those of the changes that are not None. Raises SuiteError.

    A rule keeps the scale of `sampling`, unless that is the scale of no guidance.
    """
    kept = sampling.model_dump()
    requested = {key: value for key, value in changes.items() if value is not None}
    if guidance is not None:
        value = read_value(guidance, f"--guidance {guidance}")
        requested["guidance"] = value
        if _is_unguided(value):
            requested.setdefault("guidance_scale", 1.0)
        if sampling.guidance_scale == 1:
            del kept["guidance_scale"]
    try:
        return Sampling.model_validate({**kept, **requested})
    except ValidationError as error:
        raise SuiteError(replace(problem, loc=()) for problem in validation_problems(error, Sampling)) from None


def _is_unguided(value: object) -> bool:
    """Whether a rule as typed has no weak branch, and so no scale."""
    try:
        rule: GuidanceOptions = TypeAdapter(GuidanceChoice).validate_python(value)
    except ValidationError:  # which the sampling that holds it reports
        return False
    return rule.branches[1] is None
