"""Methods by the names that a suite uses."""

from __future__ import annotations

from tread_bench.backbone import Backbone
from tread_bench.config import Cell
from tread_bench.methods.base import Method, Prediction, Rows
from tread_bench.methods.dense import Dense
from tread_bench.methods.network import Network
from tread_bench.methods.tread import Tread

__all__ = ["Method", "Network", "Prediction", "Rows", "build_method"]

_METHODS: dict[str, type[Method]] = {"dense": Dense, "tread": Tread}


def build_method(cell: Cell, backbone: Backbone) -> Method:
    """The cell's method on that backbone."""
    return _METHODS[cell.method.name](cell, backbone)
