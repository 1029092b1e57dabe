"""What a cell chooses among what is announced: a backbone, and settings of data, method, objective, rule and losses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field, PlainSerializer

from tread_bench.core.config.base import Model, one_of, some_of
from tread_bench.core.describe.data_sources import DataOptions, data_sources
from tread_bench.core.describe.families import BackboneSpec, Family, TextSpec, find_family, make_spec
from tread_bench.core.describe.guidance import GuidanceOptions, guidance_rules
from tread_bench.core.describe.methods import LossOptions, MethodOptions, losses, methods
from tread_bench.core.describe.objectives import ObjectiveOptions, objectives
from tread_bench.core.describe.routes import Route, as_routes, format_routes

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
    GuidanceChoice = one_of(guidance_rules())
    Auxiliary = some_of(losses(), "losses", "repa")

DEFAULT_DATA = data_sources.find("digits").options()  # a suite without `data` uses real images, without a download
PLAINLY_DENSE = methods.find("dense").options()  # the baseline of all comparisons
PLAINLY_ROUTED = methods.find("tread").options()  # plain routing
DEFAULT_OBJECTIVE = objectives.find("flow").options()
UNGUIDED = guidance_rules.find("none").options()

Routes = Annotated[
    tuple[Route, ...],
    BeforeValidator(as_routes, json_schema_input_type=str | list[str]),
    PlainSerializer(format_routes, return_type=str),
]


class BackboneChoice(Model):
    """A published name, or a family with its own sizes (`depth`, `hidden`, `heads`, `patch`, ...)."""

    model_config = ConfigDict(extra="allow")

    name: str = Field(description="published name (DiT-S/2) or family (DiT)")

    @property
    def sizes(self) -> dict[str, Any]:
        return dict(self.model_extra or {})

    @property
    def label(self) -> str:
        """A readable name: DiT-S/2, or DiT (depth 12, hidden 64)."""
        sizes = ", ".join(f"{key} {value}" for key, value in self.sizes.items())
        return f"{self.name} ({sizes})" if sizes else self.name

    def family(self) -> Family:
        return find_family(self.name)[0]

    def sizes_of(self, data: DataChoice) -> dict[str, int]:
        """Return the sizes that follow from the data; those of its captions where the family takes text."""
        sizes = {"image_size": data.image_size, "channels": data.channels, "num_classes": data.num_classes}
        if data.text_shape is not None and issubclass(self.family().spec, TextSpec):
            sizes["context_tokens"], sizes["context_dim"] = data.text_shape
        return sizes

    def spec(self, data: DataChoice) -> BackboneSpec:
        """Return the validated sizes for that data. Raises pydantic's ValidationError."""
        return make_spec(self.name, **{**self.sizes_of(data), **self.sizes})[1]
