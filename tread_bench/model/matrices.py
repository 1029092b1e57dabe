"""Which linear layers of a backbone its blocks call on tokens: those that adapters and Muon train."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook

from tread_bench.core.describe.families import BackboneSpec, Family
from tread_bench.model.backbone import build_backbone


def layers_over_tokens(family: Family, spec: BackboneSpec) -> dict[str, tuple[int, int]]:
    """Return the shapes (outputs, inputs) of the linear layers that a family's blocks call on tokens, by name.

    They are called on three dimensions or more, in a pass on the meta device. Layers of a condition that a sample has
    once, (B, D), are none of them, nor is anything in embedding or head, or a layer whose weight a block only reads.
    """
    called: set[nn.Module] = set()

    def note(layer: nn.Module, inputs: tuple[Any, ...]) -> None:
        if isinstance(layer, nn.Linear) and inputs[0].ndim > 2:
            called.add(layer)

    with torch.device("meta"), torch.no_grad():
        model = build_backbone(family, spec, {"attention": "math"})
        x = torch.empty(1, spec.channels, spec.image_size, spec.image_size)
        y = None if spec.context_shape is None else torch.empty(1, *spec.context_shape)
        state = model.start(x, torch.empty(1), y)
        handle = register_module_forward_pre_hook(note)
        try:
            for block in range(model.num_blocks):
                state = model.run_block(block, state)
        finally:
            handle.remove()
    layers = {name: layer for name, layer in model.named_modules() if layer in called}
    return {name: (layer.weight.shape[0], layer.weight.shape[1]) for name, layer in layers.items()}
