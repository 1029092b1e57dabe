"""The choice of a backbone, by published name or by sizes, and its routes."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field, PlainSerializer

from tread_bench.core.config.base import Model
from tread_bench.core.config.choices import DataChoice
from tread_bench.core.describe.families import BackboneSpec, Family, TextSpec, find_family, make_spec
from tread_bench.core.describe.routes import Route, as_routes, format_routes

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
