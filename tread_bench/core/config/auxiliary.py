"""The auxiliary losses of a cell: settings of any announced loss."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BeforeValidator

from tread_bench.core.config.base import named_settings, one_of
from tread_bench.core.describe.losses import LossOptions, losses

if TYPE_CHECKING:
    Auxiliary = tuple[LossOptions, ...]
else:
    _LOSS = one_of(loss.options for loss in losses().values())
    _NAME = Literal[tuple(losses())]
    _READ = BeforeValidator(named_settings("losses", "repa"), json_schema_input_type=_NAME | list[_NAME | _LOSS])
    Auxiliary = Annotated[tuple[_LOSS, ...], _READ]
