"""Auxiliary losses: what is added to the training loss of any method."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from tread_bench.core.config.base import Float, Int, Model


class MaeLoss(Model):
    """The tokens that bypassed a route are asked for their own noised pixels, over all routes (MaskDiT's loss)."""

    name: Literal["mae"] = "mae"
    weight: Float = Field(0.1, gt=0)
    route_weights: tuple[Annotated[Float, Field(ge=0)], ...] | None = Field(
        None, description="weight of each route, in their order; empty: 1 / number of routes"
    )


class RepaLoss(Model):
    """One block's tokens are aligned with features of the clean image (REPA)."""

    name: Literal["repa"] = "repa"
    weight: Float = Field(0.5, gt=0)
    block: Int | None = Field(
        None, ge=0, description="block whose tokens are aligned; empty: the 8th of 28, scaled to the depth"
    )
    projector: Int = Field(2048, ge=1, description="hidden width of the projection MLP")
    model: str | None = Field(None, description="timm model of the features; empty: the feature network of digits")
    weights: str | None = Field(None, description="its weights: a local safetensors file, or one of torch.save")


AuxiliaryChoice = Annotated[MaeLoss | RepaLoss, Field(discriminator="name")]


def _short_forms(value: object) -> object:
    if isinstance(value, str | dict):
        value = (value,)
    if not isinstance(value, list | tuple):
        raise ValueError("must be a list of losses such as [repa], or [] for none")
    return tuple({"name": one} if isinstance(one, str) else one for one in value)


Auxiliary = Annotated[
    tuple[AuxiliaryChoice, ...],
    BeforeValidator(
        _short_forms,
        json_schema_input_type=Literal["mae", "repa"] | list[Literal["mae", "repa"] | AuxiliaryChoice],
    ),
]
