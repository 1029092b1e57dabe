"""A linear recurrence token by token, as papers and reference code write it."""

from __future__ import annotations

import torch
from torch import Tensor


def token_by_token(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor, a: Tensor | None = None, b: Tensor | None = None
) -> Tensor:
    """S_t = diag(e^{g_t}) S_{t-1} + b_t (S_{t-1}^T a_t)^T + k_t v_t^T, and y_t = S_t^T q_t.

    Args:
        q, k, a, b: (B, H, L, K), or (B, 1, L, K). v: (B, H, L, V). g: (B, H, L, K) or (B, H, L, 1).
    """
    state = v.new_zeros(*v.shape[:2], k.shape[3], v.shape[3])
    y = torch.zeros_like(v)
    for t in range(v.shape[2]):
        written = k[:, :, t, :, None] * v[:, :, t, None, :]
        if a is not None and b is not None:
            read = (a[:, :, t, :, None] * state).sum(2)
            written = written + b[:, :, t, :, None] * read[:, :, None, :]
        state = state * g[:, :, t, :, None].exp() + written
        y[:, :, t] = (q[:, :, t, :, None] * state).sum(2)
    return y
