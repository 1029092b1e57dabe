"""What blocks do: how similar their outputs are, and how much gradient each gets, as routing is deep supervision."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn

from tread_bench.core.stored.records import Similarity
from tread_bench.data.source import DataSplit
from tread_bench.diffusion.objectives.base import Objective
from tread_bench.measure.inside.validation import held_out_batches
from tread_bench.model.backbone import Backbone, TokenState
from tread_bench.model.network import Network
from tread_bench.model.ops.similarity import cosine_across_times, cosine_between_layers, unit_vectors

TOKENS_AT_A_TIME = 1024  # bounds the memory: all blocks' outputs at all times are held at once


@torch.no_grad()
def layer_similarity(
    network: Network, objective: Objective, held_out: DataSplit, num_samples: int, times: Sequence[float]
) -> Similarity:
    """Similarity of the residual stream after each block, over the first `num_samples` held-out images; dense.

    An image has the same noise at every time, so that only the time differs.
    """
    size = max(1, TOKENS_AT_A_TIME // network.spec.num_tokens)
    layers = network.num_blocks
    steps = len(times)
    between = torch.zeros(layers, layers, dtype=torch.float64)
    across = torch.zeros(layers, steps, steps, dtype=torch.float64)
    for _, x, y, noise in held_out_batches(network, held_out, num_samples, size):
        # The outputs of all blocks at all times.
        outputs = []
        for time in times:
            t = torch.full((len(x),), time, device=x.device)
            x_t = objective.corrupt(x, noise, t)
            outputs.append(block_outputs(network, objective, x_t, t, y))

        # Cosines between blocks, and between times; each image counts the same.
        unit = unit_vectors(torch.stack(outputs).flatten(2, 3))
        share = len(x) / num_samples
        between += share * cosine_between_layers(unit).cpu()
        across += share * cosine_across_times(unit).cpu()
    return Similarity(
        matrix=between.tolist(),
        across_times=across.tolist(),
        times=list(times),
        num_samples=num_samples,
    )


def block_outputs(network: Network, objective: Objective, x_t: Tensor, t: Tensor, y: Tensor | None) -> Tensor:
    """Return the residual stream after every block, (L, B, P + N, D), on the inputs that the objective makes of x_t;
    dense.
    """
    outputs: list[Tensor] = []
    objective.velocity(partial(network, y=y, on_block=lambda block, state: outputs.append(state.stream())), x_t, t)
    return torch.stack(outputs)


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
