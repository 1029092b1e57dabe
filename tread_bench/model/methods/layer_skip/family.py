"""Description of a control, without torch: samples skip blocks."""

from __future__ import annotations

from typing import Literal

from tread_bench.core.describe.methods import MethodFamily, MethodOptions, Tokens
from tread_bench.model.methods.long_skips import halved_skips


class LayerSkipOptions(MethodOptions):
    """Control: all tokens of a sample skip a route's blocks, with the rate as probability."""

    name: Literal["layer_skip"] = "layer_skip"


LAYER_SKIP = MethodFamily(
    name="layer_skip",
    options=LayerSkipOptions,
    builder="tread_bench.model.methods.layer_skip.network:LayerSkip",
    tokens=Tokens.SKIP_AS_A_WHOLE,
    chooses_tokens=True,
    check=halved_skips,
)
