"""How similar outputs are: of two blocks at one time, and of one block at two times."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from tread_bench.core.stored.records import Similarity
from tread_bench.data.source import DataSplit
from tread_bench.diffusion.objectives.base import Objective
from tread_bench.measure.inside.validation import held_out_batches
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
