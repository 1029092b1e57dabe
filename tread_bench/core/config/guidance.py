"""The guidance of a cell: one of the rules that are announced."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated

from pydantic import BeforeValidator, Field

from tread_bench.core.guidance import GuidanceOptions, find_guidance, guidance_rules


def _short_form(value: object) -> object:
    if isinstance(value, str):
        return {"name": value}
    if not isinstance(value, dict | GuidanceOptions):
        raise ValueError("must be the name of a rule, such as cfg, or a mapping with its name and settings")
    return value


if TYPE_CHECKING:
    GuidanceChoice = GuidanceOptions
else:
    _ANY_OPTIONS = reduce(or_, (rule.options for rule in guidance_rules().values()))
    _RULE = Annotated[_ANY_OPTIONS, Field(discriminator="name")]
    GuidanceChoice = Annotated[_RULE, BeforeValidator(_short_form)]

UNGUIDED = find_guidance("none").options()
