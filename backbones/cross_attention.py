"""Attention of image tokens to a text, which families that are conditioned on captions share."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn


class CrossAttention(nn.Module):
    """Every token (B, T, D) attends to the whole text (B, M, D); under a route, T is the number of tokens present."""

    def __init__(self, width: int, heads: int, head_dim: int, fused: bool, bias: bool = False) -> None:
        super().__init__()
        inner = heads * head_dim
        self.heads = heads
        self.to_q, self.to_k, self.to_v = (nn.Linear(width, inner, bias=bias) for _ in range(3))
        self.to_out = nn.Sequential(nn.Linear(inner, width))
        self.fused = fused

    def forward(self, x_BTD: Tensor, context_BMD: Tensor) -> Tensor:
        projected = self.to_q(x_BTD), self.to_k(context_BMD), self.to_v(context_BMD)
        q, k, v = (p.unflatten(2, (self.heads, -1)).transpose(1, 2) for p in projected)
        if self.fused:
            attended = F.scaled_dot_product_attention(q, k, v)
        else:
            attended = (q @ k.transpose(2, 3) * q.shape[3] ** -0.5).softmax(dim=-1) @ v
        return self.to_out(attended.transpose(1, 2).flatten(2))
