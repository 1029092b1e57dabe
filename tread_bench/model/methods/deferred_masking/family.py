"""Description of deferred masking, without torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from tread_bench.core.config.base import Int
from tread_bench.core.describe.methods import MethodFamily, MethodOptions, Tokens
from tread_bench.core.problems import Problem
from tread_bench.model.methods.mask.family import routes_over_some_blocks

if TYPE_CHECKING:
    from tread_bench.core.config.routed import Setting


class DeferredMaskingOptions(MethodOptions):
    """A light mixer sees all tokens; then tokens are dropped to the end, and the loss is on the others (MicroDiT)."""

    name: Literal["deferred_masking"] = "deferred_masking"
    mixer_width: Int = Field(512, ge=1, description="width of the mixer, as in MicroDiT-Tiny/2; best the backbone's")
    mixer_depth: Int = Field(4, ge=1, description="blocks of the mixer, as in MicroDiT-Tiny/2")
    mixer_heads: Int = Field(16, ge=1, description="heads of the mixer, as in MicroDiT-Tiny/2; must divide its width")


def _check(setting: Setting) -> Iterator[Problem]:
    options = setting.cell.method
    assert isinstance(options, DeferredMaskingOptions)
    yield from routes_over_some_blocks(setting)
    width, heads = options.mixer_width, options.mixer_heads
    if width % heads:
        message = f"method.mixer_heads {heads}: must divide method.mixer_width {width}"
        yield Problem(message, ("method", "mixer_heads"))


DEFERRED_MASKING = MethodFamily(
    name="deferred_masking",
    options=DeferredMaskingOptions,
    builder="tread_bench.model.methods.deferred_masking.network:DeferredMasking",
    tokens=Tokens.LEAVE_OUT,
    has_modules=True,
    check=_check,
)
