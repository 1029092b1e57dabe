"""How much gradient each block gets: routing as deep supervision."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import torch
from torch import Tensor, nn

from tread_bench.model.backbone import Backbone, TokenState


def block_parameters(backbone: Backbone, x: Tensor, t: Tensor, y: Tensor | None) -> list[list[nn.Parameter]]:
    """Return the trainable parameters that each block uses: those that its outputs depend on, but not through its
    inputs.
    """
    used = []
    with torch.enable_grad():
        state = _detached(backbone.start(x, t, y))  # no head: some methods have one of their own
        for block in range(backbone.num_blocks):
            state = backbone.run_block(block, state)
            found = _leaves([*state.streams.values(), *(skip.value for skip in state.skips)])
            used.append([parameter for parameter in backbone.parameters() if parameter in found])
            state = _detached(state)
    return used


def gradient_norms(blocks: list[list[nn.Parameter]], losses: Iterable[Callable[[], Tensor]]) -> list[float]:
    """Per block, the norm of the gradient over its parameters, averaged over the losses; clears the gradients."""
    total = torch.zeros(len(blocks), dtype=torch.float64)
    count = 0
    for loss in losses:
        parameters = [p for block in blocks for p in block]
        gradients = iter(torch.autograd.grad(loss(), parameters, allow_unused=True))
        for k, block in enumerate(blocks):
            of_block = [next(gradients) for _ in block]
            squares = [gradient.double().square().sum().item() for gradient in of_block if gradient is not None]
            total[k] += sum(squares, 0.0) ** 0.5
        count += 1
    return (total / count).tolist()


def _detached(state: TokenState) -> TokenState:
    """The same state with the graph behind it cut off."""
    return replace(
        state,
        streams={name: stream.detach() for name, stream in state.streams.items()},
        c=None if state.c is None else state.c.detach(),
        context=None if state.context is None else state.context.detach(),
        conditioning=tuple(None if one is None else one.detach() for one in state.conditioning),
        skips=tuple(replace(skip, value=skip.value.detach()) for skip in state.skips),
    )


def _leaves(outputs: Iterable[Tensor]) -> set[Tensor]:
    """The tensors at which gradients of the outputs end."""
    waiting = [output.grad_fn for output in outputs if output.grad_fn is not None]
    seen, leaves = set(waiting), set()
    while waiting:
        node = waiting.pop()
        if hasattr(node, "variable"):  # the node that adds to a leaf's gradient
            leaves.add(node.variable)
        before = {behind for behind, _ in node.next_functions if behind is not None} - seen
        seen |= before
        waiting.extend(before)
    return leaves
