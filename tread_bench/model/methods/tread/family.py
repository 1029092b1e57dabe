"""Description of TREAD, without torch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tread_bench.core.describe.methods import MethodFamily, MethodOptions, Tokens


class TreadOptions(MethodOptions):
    """Routed tokens bypass the blocks of their route and return with their old value (TREAD)."""

    name: Literal["tread"] = "tread"
    detach: bool = Field(False, description="no gradient flows through a bypass")
    float32_after_route: bool = Field(
        False, description="the block after a route's end runs outside autocast, as released; nothing without autocast"
    )

    @property
    def has_float32_block(self) -> bool:
        return self.float32_after_route


TREAD = MethodFamily(
    name="tread",
    options=TreadOptions,
    builder="tread_bench.model.methods.tread.network:Tread",
    tokens=Tokens.BYPASS,
)
