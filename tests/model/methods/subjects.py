"""Small cells of every method on every family, and networks of them."""

from __future__ import annotations

import torch

from tests.small_backbones import BACKBONES
from tread_bench.cell.step import Trainer
from tread_bench.core.config.suite import Cell, Suite
from tread_bench.core.describe.methods import methods
from tread_bench.data.source import open_data
from tread_bench.diffusion.objectives.base import build_objective
from tread_bench.model.backbone import build_backbone
from tread_bench.model.methods.base import BatchRange
from tread_bench.model.network import build_network
from tread_bench.suite.plan import expand

ROUTES = {
    "mask": "0:-1@0.5",
    "deferred_masking": "0:-1@0.5",
    "mdt": "0:3@0.5",
    "drop": "1:-1@0.5",
}  # the others: the blocks between the first and the last
OPTIONS = {
    "mask": {"decoder_width": 24, "decoder_depth": 2, "decoder_heads": 2},
    "deferred_masking": {"mixer_width": 24, "mixer_depth": 2, "mixer_heads": 2},
    "mdt": {"interpolater_heads": 2},
    "elit": {"groups": 2, "heads": 2},
}
METHODS = tuple(methods())


def cell_of(method="tread", backbone="DiT", **keys) -> Cell:
    """A resolved cell; `backbone` is one of `BACKBONES` or a published name."""
    routes = [] if method == "dense" else [ROUTES.get(method, "1:3@0.5")]
    base = {
        "backbone": BACKBONES.get(backbone, backbone),
        "method": {"name": method, **OPTIONS.get(method, {}), **keys.pop("options", {})},
        "routes": routes,
        "training": {"iterations": 12, "batch": 6, "checkpoint_every": 4, "learning_rate": 1e-3},
    }
    return expand(Suite.model_validate({"name": "study", "base": {**base, **keys}})).cells[0].cell


def network_of(cell, seed=0, perturbed=False):
    """Its network; `perturbed` moves every weight, so that a layer that starts at zero hides nothing."""
    family, spec = cell.backbone.family(), cell.backbone.spec(cell.data)
    model = build_backbone(family, spec, {"attention": "math"}, seed, cell.objective)
    network = build_network(cell, model, seed)
    if perturbed:
        generator = torch.Generator().manual_seed(1)
        with torch.no_grad():
            for parameter in network.parameters():
                if parameter.requires_grad:
                    parameter.add_(0.05 * torch.randn(parameter.shape, generator=generator))
    return network


def trainer_of(cell, seed=0, perturbed=False):
    network = network_of(cell, seed, perturbed)
    return Trainer(cell, seed, network, build_objective(cell.objective), open_data(cell.data), torch.device("cpu"))


def answering(network):
    """The network with weights that answer to everything, as after a training."""
    network.eval().requires_grad_(False)
    generator = torch.Generator().manual_seed(0)
    for parameter in network.parameters():
        parameter.copy_(0.2 * torch.randn(parameter.shape, generator=generator))
    return network


def inputs(count=6, seed=0):
    """x (B, 1, 8, 8), t (B,), y (B,)."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 1, 8, 8, generator=generator)
    return x, torch.rand(count, generator=generator), torch.arange(count) % 10


def batch_range(count=6, first=0, routing=1.0):
    return BatchRange(seed=0, first=first, count=count, routing=routing)


def watch(backbone, note):
    """Have note(block, state before, state after) called for each block that runs."""
    run_block = backbone.run_block

    def watched(block, state):
        after = run_block(block, state)
        note(block, state, after)
        return after

    backbone.run_block = watched
