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
    trained = [parameter for parameter in backbone.parameters() if parameter.requires_grad]
    with torch.enable_grad():
        state = _detached(backbone.start(x, t, y))  # no head: some methods have one of their own
        for block in range(backbone.num_blocks):
            state = backbone.run_block(block, state)
            outputs = [*state.streams.values(), *(skip.value for skip in state.skips)]
            reached = [output.sum() for output in outputs if output.requires_grad]
            gradients = torch.autograd.grad(reached, trained, allow_unused=True) if reached else [None] * len(trained)
            used.append([one for one, gradient in zip(trained, gradients, strict=True) if gradient is not None])
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
