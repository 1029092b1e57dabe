"""Attention to a text, which families that are conditioned on captions share."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn


def attend(q_BHTE: Tensor, k_BHME: Tensor, v_BHME: Tensor, fused: bool) -> Tensor:
    """Return softmax(Q K^T / sqrt(E)) V of every head, side by side: (B, T, H E)."""
    if fused:
        attended = F.scaled_dot_product_attention(q_BHTE, k_BHME, v_BHME)
    else:
        attended = (q_BHTE @ k_BHME.transpose(2, 3) * q_BHTE.shape[3] ** -0.5).softmax(dim=-1) @ v_BHME
    return attended.transpose(1, 2).flatten(2)


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
        return self.to_out(attend(q, k, v, self.fused))
