"""The network of a cell: its backbone, its method and its auxiliary losses, with the initial weights of a seed."""

from __future__ import annotations

from tread_bench.core.config.suite import Cell
from tread_bench.core.describe.plugins import named
from tread_bench.model.backbone import Backbone, draw_weights
from tread_bench.model.losses.auxiliary import Auxiliary
from tread_bench.model.methods.base import init_linear
from tread_bench.model.methods.build import build_method
from tread_bench.model.network import Network


def build_network(cell: Cell, backbone: Backbone, seed: int) -> Network:
    """The backbone, and around it what the cell adds, drawn by name: the backbone's weights stay the same.

    Raises:
        UserError: the target features of an auxiliary loss cannot be read.
    """
    # The method's own parameters.
    method = build_method(cell, backbone)
    draw_weights(method, seed, method.init_module, "method.")

    # Those of the auxiliary losses.
    losses: list[Auxiliary] = [named(options.family.builder)(options, cell, backbone) for options in cell.auxiliary]
    for options, loss in zip(cell.auxiliary, losses, strict=True):
        draw_weights(loss, seed, lambda name, module: init_linear(module), f"auxiliary.{options.name}.")
    return Network(backbone, method, losses)
