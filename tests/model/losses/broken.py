"""Auxiliary losses that break one rule each: as variants of MaskDiT's, or of one that reads tokens."""

from __future__ import annotations

import random

import torch
from torch import nn

from tread_bench.model.losses.mae.network import Mae
from tread_bench.model.methods.base import Auxiliary, first_state

BLOCK = 2


class Energy(Auxiliary):
    """weight * mean of (W z)^2 over the tokens z behind a block: keeps the contract."""

    block = BLOCK

    def __init__(self, options, cell, backbone):
        super().__init__()
        self.weight = options.weight
        width = first_state(backbone).stream().shape[2]
        self.project = nn.Linear(width, 4, bias=False)

    def tokens(self, prediction):
        state = prediction.states[BLOCK]
        return state.stream()[:, state.num_prefix :]

    def forward(self, prediction, images):
        order = torch.arange(self.tokens(prediction).shape[1]).view(1, -1, 1)
        return self.weight * (self.project(self.tokens(prediction)).square() * order).mean()


class TrainsNothing(Energy):
    def tokens(self, prediction):
        return super().tokens(prediction).detach()


class AsMae(Mae):
    def __init__(self, options, cell, backbone):
        super().__init__(options.weight, [1.0] * len(cell.routes), backbone.spec.patch)


class OneForEachSample(AsMae):
    def forward(self, prediction, images):
        return super().forward(prediction, images).expand(len(images.clean))


class ForgetsTheWeight(AsMae):
    def forward(self, prediction, images):
        return super().forward(prediction, images) / max(self.weight, 1e-3)


class SumsOverTheBatch(AsMae):
    def forward(self, prediction, images):
        return super().forward(prediction, images) * len(images.clean)


class KeepsAState(AsMae):
    def __init__(self, options, cell, backbone):
        super().__init__(options, cell, backbone)
        self.scale = 1 + random.random()

    def forward(self, prediction, images):
        return super().forward(prediction, images) * self.scale
