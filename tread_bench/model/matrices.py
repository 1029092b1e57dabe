"""Which weights of a backbone are matrices that its blocks apply to tokens, and which layers they call on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode

from tread_bench.core.describe.families import BackboneSpec, Family
from tread_bench.model.backbone import Backbone, build_backbone


def hidden_matrices(family: Family, spec: BackboneSpec) -> dict[str, tuple[int, int]]:
    """Return the shapes of the matrices that a family's blocks apply to tokens, by parameter name.

    They are the 2-D weights of linear layers whose input has three dimensions or more, in a pass on the meta device.
    Linear layers of a condition that a sample has once, (B, D), are none of them, nor is anything in embedding or head.
    """
    model, applied, _ = _run_blocks(family, spec)
    return {name: (p.shape[0], p.shape[1]) for name, p in model.named_parameters() if p.ndim == 2 and id(p) in applied}


def layers_over_tokens(family: Family, spec: BackboneSpec) -> list[str]:
    """Return the names of the linear layers that a family's blocks call on tokens, in a pass on the meta device.

    A layer whose weight a block only reads is none of them: what is put in its place would not be called.
    """
    model, _, called = _run_blocks(family, spec)
    return [name for name, layer in model.named_modules() if layer in called]


def _run_blocks(family: Family, spec: BackboneSpec) -> tuple[Backbone, dict[int, Tensor], set[nn.Module]]:
    """Return a network on the meta device, the weights that its blocks apply to tokens and the layers they call."""
    applied = _Applied()
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
            with applied:
                for block in range(model.num_blocks):
                    state = model.run_block(block, state)
        finally:
            handle.remove()
    return model, applied.weights, called


class _Applied(TorchFunctionMode):
    """As a context, notes the `weights` that linear layers apply to tokens; of a part of a weight, the whole one."""

    def __init__(self) -> None:
        super().__init__()
        self.weights: dict[int, Tensor] = {}

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if func is functional.linear:
            x, weight = _input_and_weight(*args, **(kwargs or {}))
            whole = weight if weight._base is None else weight._base
            if x.ndim > 2:
                self.weights[id(whole)] = whole
        return func(*args, **(kwargs or {}))


def _input_and_weight(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The arguments of `linear`, by its names."""
    return input, weight
