"""Description of dense training, without torch."""

from __future__ import annotations

from typing import Literal

from tread_bench.core.describe.methods import MethodFamily, MethodOptions, Tokens


class DenseOptions(MethodOptions):
    """Every token passes every block."""

    name: Literal["dense"] = "dense"


DENSE = MethodFamily(
    name="dense",
    options=DenseOptions,
    builder="tread_bench.model.methods.dense.network:Dense",
    tokens=Tokens.ALL_PASS,
)
