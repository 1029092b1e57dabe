"""How much gradient each block gets: routing as deep supervision."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_pre_hook

from tread_bench.model.backbone import Backbone, TokenState, run_blocks


def block_parameters(backbone: Backbone, x: Tensor, t: Tensor, y: Tensor | None) -> list[list[nn.Parameter]]:
    """The trainable parameters that each block uses, found by observing which modules its call runs."""
    # Record the modules that run while a block runs.
    used: list[dict[int, nn.Parameter]] = [{} for _ in range(backbone.num_blocks)]
    current: list[int] = []

    def note(module: nn.Module, _: object) -> None:
        if not current:
            return
        for owner in (module, *module.children()):  # some modules read a child's weight without calling the child
            for parameter in owner.parameters(recurse=False):
                if parameter.requires_grad:
                    used[current[-1]][id(parameter)] = parameter

    # Run all blocks, dense.
    handle = register_module_forward_pre_hook(note)
    try:
        with torch.no_grad(), _watched_blocks(backbone, current):
            run_blocks(backbone, backbone.start(x, t, y))  # no head: some methods have one of their own
    finally:
        handle.remove()
    return [list(block.values()) for block in used]


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


@contextmanager
def _watched_blocks(backbone: Backbone, current: list[int]) -> Iterator[None]:
    """While open, `current` holds the number of the block that is running."""
    run_block = backbone.run_block

    def watched(block: int, state: TokenState) -> TokenState:
        current.append(block)
        try:
            return run_block(block, state)
        finally:
            current.pop()

    backbone.run_block = watched  # type: ignore[method-assign]
    try:
        yield
    finally:
        del backbone.run_block
