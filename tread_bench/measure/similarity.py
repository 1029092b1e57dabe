"""How alike the layers' outputs are: mean cosine similarity of the residual stream after each pair of blocks."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from tread_bench.backbone import Backbone
from tread_bench.data import ImageSet
from tread_bench.measure.validation import held_out_batch
from tread_bench.objectives import Flow
from tread_bench.ops.similarity import cosine_matrix
from tread_bench.records import Similarity


@torch.no_grad()
def layer_similarity(
    backbone: Backbone, objective: Flow, held_out: ImageSet, num_samples: int, times: Sequence[float]
) -> Similarity:
    """L x L over tokens, the first `num_samples` held-out images and `times`; dense, as TREAD's figure 5."""
    x, y, noise = held_out_batch(backbone, held_out, 0, min(num_samples, len(held_out)))
    total = torch.zeros(backbone.num_blocks, backbone.num_blocks, dtype=torch.float64)
    for time in times:
        t = torch.full((len(x),), time, device=x.device)
        total += cosine_matrix(block_outputs(backbone, objective.corrupt(x, noise, t), t, y)).cpu()
    return Similarity(matrix=(total / len(times)).tolist(), times=list(times), num_samples=len(x))


def block_outputs(backbone: Backbone, x: Tensor, t: Tensor, y: Tensor | None) -> Tensor:
    """The residual stream after every block, (L, B, P + N, D); dense."""
    outputs: list[Tensor] = []
    backbone(x, t, y, on_block=lambda block, state: outputs.append(state.stream()))
    return torch.stack(outputs)
