"""Description of MaskDiT, without torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from tread_bench.core.config.base import Float, Int
from tread_bench.core.describe.methods import MethodFamily, MethodOptions, Tokens
from tread_bench.core.describe.routes import format_routes
from tread_bench.core.problems import Problem
from tread_bench.model.losses.mae.family import no_estimate

if TYPE_CHECKING:
    from tread_bench.core.config.routed import Setting


class MaskOptions(MethodOptions):
    """Tokens are dropped for all blocks; mask tokens and a small decoder replace them (MaskDiT)."""

    name: Literal["mask"] = "mask"
    decoder_width: Int = Field(
        512, ge=4, multiple_of=4, description="width of the decoder, as published; state it for backbones below DiT-S"
    )
    decoder_depth: Int = Field(8, ge=1, description="blocks of the decoder, as published")
    decoder_heads: Int = Field(16, ge=1, description="heads of the decoder, as published; must divide its width")
    mae_weight: Float = Field(0.1, ge=0, description="weight of the loss on the dropped tokens")


def routes_over_some_blocks(setting: Setting) -> Iterator[Problem]:
    """Report routes other than a single one over all blocks."""
    cell, last = setting.cell, setting.family.num_blocks(setting.spec) - 1
    if [(route.start, route.end) for route in cell.routes] != [(0, last)]:
        written = format_routes(cell.routes)
        message = f"method {cell.method.name} drops tokens for all blocks, here {written}: write one route 0:-1@RATE"
        yield Problem(message, ("routes",))


def _check(setting: Setting) -> Iterator[Problem]:
    cell, spec = setting.cell, setting.spec
    options = cell.method
    assert isinstance(options, MaskOptions)
    yield from routes_over_some_blocks(setting)

    # Rules of the decoder.
    width, heads = options.decoder_width, options.decoder_heads
    if width % heads:
        message = f"method.decoder_heads {heads}: must divide method.decoder_width {width}"
        yield Problem(message, ("method", "decoder_heads"))

    # The loss on dropped pixels, which divides by each patch's standard deviation.
    if options.mae_weight and spec.patch_values == 1:
        message = (
            "method mask: its loss on pixels normalises each patch, and here a patch is a single value: "
            "set backbone.patch: 2, or method.mae_weight: 0"
        )
        yield Problem(message, ("method",))
    if options.mae_weight and cell.objective.family.predicts_noise:
        yield Problem(f"method mask: {no_estimate(cell.objective)}, or set method.mae_weight: 0", ("method",))


MASK = MethodFamily(
    name="mask",
    options=MaskOptions,
    builder="tread_bench.model.methods.mask.network:Mask",
    tokens=Tokens.DROP,
    has_modules=True,
    check=_check,
    own_losses={"mae": "mae_weight"},
)
