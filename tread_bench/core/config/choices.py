"""What a cell chooses among what is announced: settings of any data source, method, objective, rule and loss."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BeforeValidator

from tread_bench.core.config.base import named_settings, one_of
from tread_bench.core.describe.data_sources import DataOptions, data_sources, find_data_source
from tread_bench.core.describe.guidance import GuidanceOptions, find_guidance, guidance_rules
from tread_bench.core.describe.losses import LossOptions, losses
from tread_bench.core.describe.methods import MethodOptions, find_method, methods
from tread_bench.core.describe.objectives import ObjectiveOptions, find_objective, objectives


def _short_form(value: object) -> object:
    if isinstance(value, str):
        return {"name": value}
    if not isinstance(value, dict | GuidanceOptions):
        raise ValueError("must be the name of a rule, such as cfg, or a mapping with its name and settings")
    return value


if TYPE_CHECKING:
    DataChoice = DataOptions
    MethodChoice = MethodOptions
    ObjectiveChoice = ObjectiveOptions
    GuidanceChoice = GuidanceOptions
    Auxiliary = tuple[LossOptions, ...]
else:
    DataChoice = one_of(data_sources())
    MethodChoice = one_of(methods())
    ObjectiveChoice = one_of(objectives())
    GuidanceChoice = Annotated[one_of(guidance_rules()), BeforeValidator(_short_form)]
    _LOSS = one_of(losses())
    _NAME = Literal[tuple(losses())]
    _READ = BeforeValidator(named_settings("losses", "repa"), json_schema_input_type=_NAME | list[_NAME | _LOSS])
    Auxiliary = Annotated[tuple[_LOSS, ...], _READ]

DEFAULT_DATA = find_data_source("digits").options()  # a suite without `data` uses real images, without a download
PLAINLY_DENSE = find_method("dense").options()  # the baseline of all comparisons
PLAINLY_ROUTED = find_method("tread").options()  # plain routing
DEFAULT_OBJECTIVE = find_objective("flow").options()
UNGUIDED = find_guidance("none").options()
