"""Description of Mixture-of-Depths, without torch."""

from __future__ import annotations

from typing import Literal

from tread_bench.core.describe.methods import Evaluated, MethodFamily, MethodOptions, Tokens


class ModOptions(MethodOptions):
    """A learned router selects the top tokens for each block of a route; the others skip that block (MoD)."""

    name: Literal["mod"] = "mod"


MOD = MethodFamily(
    name="mod",
    options=ModOptions,
    builder="tread_bench.model.methods.mod.network:Mod",
    tokens=Tokens.SKIP,
    evaluated=Evaluated.ROUTED,
    has_modules=True,
    chooses_tokens=True,
)
