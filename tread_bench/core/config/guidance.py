"""The guidance of a cell: settings of any announced rule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import BeforeValidator

from tread_bench.core.config.base import one_of
from tread_bench.core.describe.guidance import GuidanceOptions, find_guidance, guidance_rules


def _short_form(value: object) -> object:
    if isinstance(value, str):
        return {"name": value}
    if not isinstance(value, dict | GuidanceOptions):
        raise ValueError("must be the name of a rule, such as cfg, or a mapping with its name and settings")
    return value


if TYPE_CHECKING:
    GuidanceChoice = GuidanceOptions
else:
    _RULE = one_of(rule.options for rule in guidance_rules().values())
    GuidanceChoice = Annotated[_RULE, BeforeValidator(_short_form)]

UNGUIDED = find_guidance("none").options()
