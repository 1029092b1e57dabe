"""Building the method of a cell."""

from __future__ import annotations

from tread_bench.core.config.suite import Cell
from tread_bench.core.describe.plugins import named
from tread_bench.model.backbone import Backbone
from tread_bench.model.methods.base import Method


def build_method(cell: Cell, backbone: Backbone) -> Method:
    """Build the cell's method for that backbone; `cell.build` draws its extra parameters."""
    method: Method = named(cell.method.family.builder)(cell, backbone)
    return method
