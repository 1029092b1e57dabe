"""What a cell chooses among what is announced: settings of any data source, method, objective, rule and loss."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import BeforeValidator

from tread_bench.core.config.base import one_of, some_of
from tread_bench.core.describe.data_sources import DataOptions, data_sources, find_data_source
from tread_bench.core.describe.guidance import GuidanceOptions, find_guidance, guidance_rules
from tread_bench.core.describe.losses import LossOptions, losses
from tread_bench.core.describe.methods import MethodOptions, find_method, methods
from tread_bench.core.describe.objectives import ObjectiveOptions, find_objective, objectives


def _is_rule(value: object) -> object:
    if not isinstance(value, str | dict | GuidanceOptions):
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
    GuidanceChoice = Annotated[one_of(guidance_rules()), BeforeValidator(_is_rule)]
    Auxiliary = some_of(losses(), "losses", "repa")

DEFAULT_DATA = find_data_source("digits").options()  # a suite without `data` uses real images, without a download
PLAINLY_DENSE = find_method("dense").options()  # the baseline of all comparisons
PLAINLY_ROUTED = find_method("tread").options()  # plain routing
DEFAULT_OBJECTIVE = find_objective("flow").options()
UNGUIDED = find_guidance("none").options()
