"""A method's step on tokens at other places, to see whether it puts them back where they were."""

from __future__ import annotations

from copy import copy
from dataclasses import replace

import torch
from torch import Tensor

from tread_bench.model.backbone import Backbone, TokenState
from tread_bench.model.methods.base import BatchRange, Method
from tread_bench.model.prediction import Prediction

CORNERS = [0, 3, 1, 2]  # of a square, in the order in which masks keep them: at rate 0.5 a checkerboard


class MovedTokens:
    """A method on a backbone without its last layer, and tokens that may stand in another order.

    Squares of 2 x 2 tokens move, and masks keep the same corners of each: neighbours stay neighbours, and a method may
    merge them.

    Args:
        start: the state before the first block; both sides of its grid are even.
    """

    def __init__(self, method: Method, backbone: Backbone, start: TokenState) -> None:
        self.method = method
        self.backbone = copy(backbone)
        self.backbone.finish = TokenState.stream  # type: ignore[assignment, method-assign]
        self.streams = {name: start.streams[name].detach().requires_grad_() for name in start.routed}
        self.start = start.with_streams(**self.streams)

        # The order of the tokens, and another: all squares but the last change places.
        rows, columns = start.grid
        self.in_place = torch.arange(rows * columns)
        squares = self.in_place.view(rows // 2, 2, columns // 2, 2).transpose(1, 2).reshape(-1, 4)
        others = torch.cat([squares[:-1].roll(1, 0), squares[-1:]])
        self.moved = self.in_place.scatter(0, squares.flatten(), others.flatten())

        # Masks of the tokens in place.
        by_corner = squares[:, CORNERS].T.flatten()
        drawn = method.with_masks(backbone, BatchRange(0, 0, start.batch)).masks
        self.masks = {key: by_corner[: key[1]].sort().values.expand(start.batch, -1) for key in drawn}

    def dense(self, order_N: Tensor) -> Tensor:
        """Return what an evaluation makes of the tokens in that order: (B, N, D), back in place."""
        return self._put_back(self.method.eval_forward(self.backbone, self._state(order_N)), order_N)

    def routed(self, order_N: Tensor, seed: int = 0) -> Prediction:
        """Return what a routed step makes of tokens and masks in that order, its output (B, N, D) back in place."""
        places_N = order_N.argsort()
        masks = {key: places_N[kept].sort(dim=1).values for key, kept in self.masks.items()}
        batch_range = BatchRange(seed, 0, self.start.batch, path_drop=False, masks=masks)
        prediction = self.method.train_forward(self.backbone, self._state(order_N), batch_range)
        return replace(prediction, output=self._put_back(prediction.output, order_N))

    def gradient(self, output_BND: Tensor) -> Tensor:
        """Return the gradient (B, N, D) by the tokens of a sum over their output with a weight for each value."""
        weights = torch.linspace(-1, 1, output_BND.numel()).view_as(output_BND)
        loss = (output_BND * weights).sum()
        gradients = torch.autograd.grad(loss, list(self.streams.values()), retain_graph=True, materialize_grads=True)
        return torch.stack(gradients).sum(0)[:, self.start.num_prefix :]

    def _state(self, order_N: Tensor) -> TokenState:
        order = self._with_prefix(order_N)
        return self.start.with_streams(**{name: stream[:, order] for name, stream in self.streams.items()})

    def _put_back(self, tokens: Tensor, order_N: Tensor) -> Tensor:
        return tokens[:, self._with_prefix(order_N).argsort()][:, self.start.num_prefix :]

    def _with_prefix(self, order_N: Tensor) -> Tensor:
        prefix = self.start.num_prefix
        return torch.cat([torch.arange(prefix), prefix + order_N])
