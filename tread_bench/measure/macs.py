"""Parameters and multiply-adds of a backbone and of what a method adds, counted on the meta device.

The tests hold a family's closed form (`costs.py`) against this count; a family without one is counted. torch's
`FlopCounterMode` counts two per multiply-add and nothing for elementwise work.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch.utils.flop_counter import FlopCounterMode

from tread_bench.core.cell_costs import Extra
from tread_bench.core.config import Cell, RepaLoss
from tread_bench.core.families import BackboneSpec, Cost, Family, Macs
from tread_bench.core.routes import RoutesLike
from tread_bench.measure.targets import open_targets
from tread_bench.model.backbone import Backbone, TokenState
from tread_bench.model.losses.repa import Repa
from tread_bench.model.methods.base import Rows
from tread_bench.model.methods.build import build_method
from tread_bench.model.network import Network

_ATTENTION = ("bmm", "baddbmm", "scaled_dot_product", "flash_attention")
_SCAN = ("scan", "wkv")


def count_cost(family: Family, spec: BackboneSpec, routes: RoutesLike = (), selector: str = "random") -> Cost:
    """Count one image's forward pass, block by block and by kind, and its backward pass, on the meta device."""
    with torch.device("meta"):
        model = family.build(spec, {"attention": "math"})
        x = torch.empty(1, spec.channels, spec.image_size, spec.image_size)
        t, y = torch.empty(1), _condition(spec)
    counter = _counter()
    after: list[Macs] = []
    with counter:
        output = _forward(
            model, x, t, y, routes, selector, lambda block, state: after.append(_by_kind(counter)), before=after
        )
        forward = _by_kind(counter)
        output.sum().backward()
    blocks = tuple(_minus(b, a) for a, b in pairwise(after))
    outside = _minus(forward, sum(blocks, Macs()))
    parameters = list(model.parameters())
    return Cost(
        params=sum(p.numel() for p in parameters),
        trainable_params=sum(p.numel() for p in parameters if p.requires_grad),
        blocks=blocks,
        outside=outside,
        inputs=3 * forward.total - _by_kind(counter).total,
    )


def count_method(cell: Cell, family: Family, spec: BackboneSpec, routed: Cost, share: float = 1.0) -> Extra:
    """Counted on the meta device in a training step at a share of the rates.

    Args:
        routed: of the backbone alone at the same.
    """
    with torch.device("meta"):
        model = family.build(spec, {"attention": "math"})
        network = Network(model, build_method(cell, model))
        x, t, y = torch.empty(1, spec.channels, spec.image_size, spec.image_size), torch.empty(1), _condition(spec)
    counter = _counter()
    with counter:
        output = network.train_forward(x, t, y, Rows(seed=0, first=0, count=1, routing=share)).output
        forward = _by_kind(counter)
        output.sum().backward()
    train_step = _by_kind(counter).total - routed.train_step
    parts = (model, network.backbone, network.method)
    whole, left, params = (sum(p.numel() for p in part.parameters()) for part in parts)
    return Extra(params, whole - left, _minus(forward, routed.forward), train_step)


def count_repa(config: RepaLoss, family: Family, spec: BackboneSpec, tokens: Sequence[int]) -> Extra:
    """Of REPA's projection over the tokens behind each block; in `train_step` too the pass of its target features."""
    targets = open_targets(config)
    with torch.device("meta"):
        repa = Repa(config, family.build(spec, {"attention": "math"}), targets)
    counter = _counter()
    with counter:
        targets(torch.zeros(1, spec.channels, spec.image_size, spec.image_size), spec.grid)
    forward = tokens[repa.block] * sum(p.numel() for p in repa.parameters() if p.ndim == 2)
    params = sum(p.numel() for p in repa.parameters())
    return Extra(params, forward=Macs(linear=forward), train_step=3 * forward + _by_kind(counter).total)


def _counter() -> FlopCounterMode:
    mapping = {torch.ops.aten.convolution_backward: _convolution_backward}
    return FlopCounterMode(display=False, custom_mapping=mapping)


def count_judged(cell: Cell, family: Family, spec: BackboneSpec, shallow: bool = False) -> Macs:
    """Count one image's forward pass as the cell's method judges it, or along its shallow path, on the meta device."""
    with torch.device("meta"), torch.no_grad():
        backbone = family.build(spec, {"attention": "math"})
        method = build_method(cell, backbone)
        x, t = torch.empty(1, spec.channels, spec.image_size, spec.image_size), torch.empty(1)
        with FlopCounterMode(display=False) as counter:
            (method.judge_shallow if shallow else method.judge)(backbone, x, t, _condition(spec))
    return _by_kind(counter)


def _condition(spec: BackboneSpec) -> torch.Tensor | None:
    """One image's text or label."""
    if spec.context_shape is not None:
        return torch.empty(1, *spec.context_shape)
    return torch.zeros(1, dtype=torch.long) if spec.num_classes else None


def _forward(model: Backbone, x, t, y, routes, selector, on_block, before):  # type: ignore[no-untyped-def]
    """The dense or routed forward pass; the count before the first block opens the list."""
    run_block = model.run_block

    def first_then_run(block: int, state: TokenState) -> TokenState:
        if not before:
            on_block(-1, state)
        return run_block(block, state)

    model.run_block = first_then_run  # type: ignore[method-assign]
    return model(x, t, y, routes=routes, selector=selector, on_block=on_block)


def _convolution_backward(grad_shape, x_shape, w_shape, *args, out_shape, **kwargs):  # type: ignore[no-untyped-def]
    """Flops of a convolution's gradients, each as many as its forward pass; torch's own formula forgets the groups."""
    gradients = sum(shape is not None for shape in out_shape[:2])
    return gradients * 2 * math.prod(grad_shape) * math.prod(w_shape[1:])


def _by_kind(counter: FlopCounterMode) -> Macs:
    counts = {"linear": 0, "attention": 0, "scan": 0}
    for operation, flops in counter.get_flop_counts().get("Global", {}).items():
        name = str(operation)
        kind = (
            "attention" if any(a in name for a in _ATTENTION) else "scan" if any(s in name for s in _SCAN) else "linear"
        )
        counts[kind] += flops // 2
    return Macs(**counts)


def _minus(a: Macs, b: Macs) -> Macs:
    return Macs(a.linear - b.linear, a.attention - b.attention, a.scan - b.scan)
