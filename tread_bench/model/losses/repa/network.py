"""REPA: one block's tokens are aligned with features of the clean image (Yu et al., arXiv 2410.06940, eq. 8).

L = -weight * mean over samples and present tokens i of cos(f(x)_i, h(z_i))

z_i is token i after a block, h a projection of three linear layers with SiLU between them, f a frozen network whose
features of the clean image x are resized to the grid of tokens.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Protocol

import torch.nn.functional as F
from torch import Tensor, nn

from tread_bench.model.backbone import Backbone
from tread_bench.model.losses.repa.family import RepaOptions
from tread_bench.model.methods.base import Auxiliary, Images, Prediction, first_state
from tread_bench.model.ops.routing import gather_tokens

PUBLISHED_BLOCK = 8  # after the eighth block
PUBLISHED_DEPTH = 28  # blocks of SiT-XL/2


class Targets(Protocol):
    """Maps images (B, C, H, W) and a grid of tokens to features (B, N, E); `width` is E, `sha256` the weights' hash."""

    width: int
    sha256: str

    def __call__(self, images: Tensor, grid: tuple[int, int]) -> Tensor: ...


def default_block(num_blocks: int) -> int:
    """Return the block at the published share of the depth."""
    return max(0, round(num_blocks * PUBLISHED_BLOCK / PUBLISHED_DEPTH) - 1)


class Repa(Auxiliary):
    """REPA over the tokens present after the block; absent tokens do not contribute."""

    block: int

    def __init__(self, config: RepaOptions, backbone: Backbone, targets: Targets) -> None:
        super().__init__()
        self.weight = config.weight
        self.targets = targets
        self.file_sha256 = targets.sha256
        self.block = default_block(backbone.num_blocks) if config.block is None else config.block
        sizes = (first_state(backbone).stream().shape[2], config.projector, config.projector, targets.width)
        first, second, third = (nn.Linear(width, width_out) for width, width_out in pairwise(sizes))
        self.projector = nn.Sequential(first, nn.SiLU(), second, nn.SiLU(), third)

    def forward(self, prediction: Prediction, images: Images) -> Tensor:
        state = prediction.states[self.block]
        targets = self.targets(images.seen, state.grid)
        if state.ids is not None:
            targets = gather_tokens(targets, state.ids)
        tokens = state.stream()[:, state.num_prefix :].to(next(self.projector.parameters()).dtype)
        return -self.weight * F.cosine_similarity(self.projector(tokens), targets, dim=2).mean()
