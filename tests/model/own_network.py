"""A network that knows nothing of this package, as in the README and in docs/extending/backbone.md."""

from __future__ import annotations

import torch
from timm.models.vision_transformer import Block
from torch import nn


class AdaBlock(Block):
    def forward(self, tokens, condition):
        return super().forward(tokens * (1 + condition[:, None]))


class MyNetwork(nn.Module):
    """Images (B, C, H, W) to images; by itself it also has the time and the label as a token in front."""

    def __init__(self, size, channels, classes, patch, depth=10, width=16):
        super().__init__()
        self.shape = size // patch, size // patch, patch, patch, channels
        self.patches = nn.Conv2d(channels, width, patch, patch)
        self.positions = nn.Parameter(0.5 * torch.randn((size // patch) ** 2, width))
        self.time = nn.Linear(1, width)
        self.label = nn.Embedding(classes + 1, width)
        self.blocks = nn.ModuleList(AdaBlock(width, num_heads=2) for _ in range(depth))
        self.out = nn.Linear(width, patch * patch * channels)

    def forward(self, x, t, y):
        condition = self.condition(t, y)
        tokens = torch.cat([condition[:, None], self.tokens(x)], dim=1)
        for block in self.blocks:
            tokens = block(tokens, condition)
        return self.image(tokens[:, 1:], condition)

    def tokens(self, x):
        return self.patches(x).flatten(2).transpose(1, 2) + self.positions

    def condition(self, t, y):
        return self.time(t[:, None]) + self.label(y)

    def image(self, tokens, condition):
        image = self.out(tokens * condition[:, None]).unflatten(2, self.shape[2:]).unflatten(1, self.shape[:2])
        return image.permute(0, 5, 1, 3, 2, 4).flatten(4).flatten(2, 3)


def walked(blocks, tokens, condition, route, places):
    """All tokens (B, S, D) through the blocks, but through those of a route only those at `places` (B, K)."""
    samples = torch.arange(len(tokens))[:, None]
    for number, block in enumerate(blocks):
        if number in route:
            tokens = tokens.index_put((samples, places), block(tokens[samples, places], condition))
        else:
            tokens = block(tokens, condition)
    return tokens
