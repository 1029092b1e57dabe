"""The dense loss of a network that trains with routes: what a training loss that rises does not say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tread_bench.core.describe.routes import RoutesLike
from tread_bench.model.backbone import Backbone


class ProbedLoss(NamedTuple):
    """Losses of one batch, with the same weights: under the routes, and dense."""

    routed: float
    dense: float


@torch.no_grad()
def dense_loss_probe(
    network: Backbone,
    inputs: Sequence[Any],
    loss: Callable[[Any], Tensor],
    *,
    routes: RoutesLike,
    selector: str = "random",
    seed: int = 0,
) -> ProbedLoss:
    """Return the loss of a batch under the routes of the training, and that of the dense network, both in eval mode.

    `routed - dense` is the route's bookkeeping: bypassed tokens are predicted by fewer blocks. Harm is a `dense` that
    stays above what it was before the routes. The network, its gradients, its modes and torch's generators stay as they
    are.

    Args:
        network: a `RoutedNetwork`, or any other backbone.
        inputs: (x, t, y) of one batch, or (x, t), as the network takes them: always the same, with the same noise.
        loss: (what the network returns) -> scalar.
        seed: of the tokens that bypass, so that they are the same at each call.
    """
    modes = [(module, module.training) for module in network.modules()]
    generator = torch.Generator().manual_seed(seed)
    network.eval()
    try:
        routed = loss(network(*inputs, routes=routes, selector=selector, generator=generator))
        return ProbedLoss(float(routed), float(loss(network(*inputs))))
    finally:
        for module, mode in modes:
            module.training = mode
