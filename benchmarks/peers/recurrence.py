"""A linear recurrence token by token: as papers and reference code write it, and in a faster loop."""

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


def by_views(q: Tensor, k: Tensor, v: Tensor, g: Tensor, a: Tensor | None = None, b: Tensor | None = None) -> Tensor:
    """The same, with views of all tokens taken at once, products of matrices with the state, and no writes in place."""
    state = v.new_zeros(*v.shape[:2], k.shape[3], v.shape[3])
    rows = [x.unsqueeze(3).unbind(2) for x in (q, v)]
    columns = [x.unsqueeze(4).unbind(2) for x in (k, g.exp())]
    delta = [] if a is None or b is None else [a.unsqueeze(3).unbind(2), b.unsqueeze(4).unbind(2)]
    y = []
    for q_t, v_t, k_t, decay, *a_and_b in zip(*rows, *columns, *delta, strict=True):
        written = k_t * v_t
        if a_and_b:
            a_t, b_t = a_and_b
            written = written + b_t * (a_t @ state)
        state = state * decay + written
        y.append(q_t @ state)
    return torch.cat(y, 2)
