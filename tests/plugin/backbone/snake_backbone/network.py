"""Snake: causal attention along a path that turns at the end of every row."""

import torch
from torch import nn

from tread_bench import Backbone, TokenState, gather_tokens, sinusoids, unpatchify


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.qkv = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 3 * width))
        self.mlp = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))

    def forward(self, x):
        q, k, v = self.qkv(x).unsqueeze(1).chunk(3, dim=-1)  # (B, 1, P + K, D): one head
        x = x + nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).squeeze(1)
        return x + self.mlp(x)


class Snake(Backbone):
    def __init__(self, spec, kernels):
        super().__init__()
        self.patches = nn.Conv2d(spec.channels, spec.hidden, spec.patch, spec.patch)
        self.label = nn.Embedding(spec.num_classes + 1, spec.hidden) if spec.num_classes else None
        self.blocks = nn.ModuleList(Block(spec.hidden) for _ in range(spec.depth))
        self.join = nn.Linear(2 * spec.hidden, spec.hidden)
        self.out = nn.Linear(spec.hidden, spec.patch**2 * spec.channels)
        place = torch.arange(1, spec.num_tokens + 1).view(spec.grid)
        place[1::2] = place[1::2].flip(1)
        self.register_buffer("place", torch.cat([place.new_zeros(1), place.flatten()]), persistent=False)

    def embed(self, x, t, y):
        prefix = sinusoids(t, self.spec.hidden) + (0 if self.label is None else self.label(y))
        tokens = torch.cat([prefix.unsqueeze(1), self.patches(x).flatten(2).transpose(1, 2)], dim=1)
        return TokenState({"x": tokens}, grid=self.spec.grid, num_prefix=1)

    def run_block(self, block, state):
        x, (there, back) = state.streams["x"], self.path(state)
        if block == self.num_blocks - 1:
            skip, state = state.pop_skip()
            x = self.join(torch.cat([x, skip], dim=-1))
        state = state.with_streams(x=gather_tokens(self.blocks[block](gather_tokens(x, there)), back))
        return state.push_skip("x") if block == 0 else state

    def path(self, state):
        """The order (B, P + K) in which the tokens present are seen, and the way back."""
        if "path" not in state.cache:
            everywhere = self.place.expand(len(state.streams["x"]), -1)
            there = (everywhere if state.positions is None else self.place[state.positions]).argsort(dim=1)
            state.cache["path"] = there, there.argsort(dim=1)
        return state.cache["path"]

    def head(self, state):
        return unpatchify(self.out(state.streams["x"][:, 1:]), state.grid, self.spec.patch)
