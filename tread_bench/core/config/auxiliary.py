"""The auxiliary losses of a cell: settings of any announced loss."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BeforeValidator

from tread_bench.core.config.base import one_of
from tread_bench.core.describe.losses import LossOptions, losses


def _short_forms(value: object) -> object:
    if isinstance(value, str | dict):
        value = (value,)
    if not isinstance(value, list | tuple):
        raise ValueError("must be a list of losses such as [repa], or [] for none")
    return tuple({"name": one} if isinstance(one, str) else one for one in value)


if TYPE_CHECKING:
    Auxiliary = tuple[LossOptions, ...]
else:
    _LOSS = one_of(loss.options for loss in losses().values())
    _NAME = Literal[tuple(losses())]
    _READ = BeforeValidator(_short_forms, json_schema_input_type=_NAME | list[_NAME | _LOSS])
    Auxiliary = Annotated[tuple[_LOSS, ...], _READ]
