"""Parameters and multiply-adds of a backbone, counted on the meta device.

The tests hold a family's closed form (`costs.py`) against this count; a family without one is counted. torch's
`FlopCounterMode` counts two per multiply-add and nothing for elementwise work.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch.utils.flop_counter import FlopCounterMode

from tread_bench.backbone import Backbone, TokenState
from tread_bench.registry import BackboneSpec, Cost, Family, Macs
from tread_bench.routes import Route

_ATTENTION = ("bmm", "baddbmm", "scaled_dot_product", "flash_attention")
_SCAN = ("scan", "wkv")


def count_cost(family: Family, spec: BackboneSpec, routes: Sequence[Route] = (), selector: str = "random") -> Cost:
    """Count one image's forward pass, block by block and by kind, and its backward pass, on the meta device."""
    with torch.device("meta"):
        model = family.build(spec, {"attention": "math"})
        x = torch.empty(1, spec.channels, spec.image_size, spec.image_size)
        t, y = torch.empty(1), torch.zeros(1, dtype=torch.long) if spec.num_classes else None
    mapping = {torch.ops.aten.convolution_backward: _convolution_backward}
    counter = FlopCounterMode(display=False, custom_mapping=mapping)
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
