"""Methods by the names that a suite uses."""

from __future__ import annotations

from tread_bench.core.config.suite import Cell
from tread_bench.model.backbone import Backbone
from tread_bench.model.methods.base import Method
from tread_bench.model.methods.dense import Dense
from tread_bench.model.methods.drop import Drop
from tread_bench.model.methods.layer_skip import LayerSkip
from tread_bench.model.methods.mask import Mask
from tread_bench.model.methods.mod import Mod
from tread_bench.model.methods.sprint import Sprint
from tread_bench.model.methods.tread import Tread

_METHODS: dict[str, type[Method]] = {
    "dense": Dense,
    "tread": Tread,
    "mask": Mask,
    "drop": Drop,
    "sprint": Sprint,
    "mod": Mod,
    "layer_skip": LayerSkip,
}


def build_method(cell: Cell, backbone: Backbone) -> Method:
    """The cell's method on that backbone; extra parameters are drawn by `cell.build`."""
    return _METHODS[cell.method.name](cell, backbone)
