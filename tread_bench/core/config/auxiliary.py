"""The auxiliary losses of a cell: the settings of those that are announced."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BeforeValidator, Field

from tread_bench.core.losses import LossOptions, losses


def _short_forms(value: object) -> object:
    if isinstance(value, str | dict):
        value = (value,)
    if not isinstance(value, list | tuple):
        raise ValueError("must be a list of losses such as [repa], or [] for none")
    return tuple({"name": one} if isinstance(one, str) else one for one in value)


if TYPE_CHECKING:
    Auxiliary = tuple[LossOptions, ...]
else:
    _ANY_OPTIONS = reduce(or_, (loss.options for loss in losses().values()))
    AuxiliaryChoice = Annotated[_ANY_OPTIONS, Field(discriminator="name")]
    _NAME = Literal[tuple(losses())]
    _READ = BeforeValidator(_short_forms, json_schema_input_type=_NAME | list[_NAME | AuxiliaryChoice])
    Auxiliary = Annotated[tuple[AuxiliaryChoice, ...], _READ]
