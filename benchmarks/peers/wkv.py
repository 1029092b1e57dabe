"""Bi-WKV as two scans over the tokens, one from each end, with a running maximum: the plain linear-time formulation."""

from __future__ import annotations

import torch
from torch import Tensor


def two_scans(w: Tensor, u: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """y_t = (sum_{i != t} e^{k_i - (|t - i| - 1) w} v_i + e^{u + k_t} v_t) / (the same without v).

    Args:
        w, u: (C,). k, v: (B, T, C).
    """
    before = _scan(w, k, v)
    after = [part.flip(0) for part in _scan(w, k.flip(1), v.flip(1))]
    itself = (u + k.transpose(0, 1), v.transpose(0, 1), torch.ones_like(v).transpose(0, 1))

    # Their sums, under the largest of the three scales.
    scales, numerators, denominators = (torch.stack(parts) for parts in zip(before, after, itself, strict=True))
    weights = torch.exp(scales - scales.amax(0))
    return ((weights * numerators).sum(0) / (weights * denominators).sum(0)).transpose(0, 1)


def _scan(w: Tensor, k: Tensor, v: Tensor) -> list[Tensor]:
    """For each token the sums over those before it: log scales, numerators and denominators, (T, B, C) each."""
    scale = torch.full_like(k[:, 0], -1e38)
    numerator = torch.zeros_like(scale)
    denominator = torch.zeros_like(scale)
    found = []
    for k_t, v_t in zip(k.unbind(1), v.unbind(1), strict=True):
        found.append((scale, numerator, denominator))
        faded = scale - w
        scale = torch.maximum(faded, k_t)
        kept = torch.exp(faded - scale)
        added = torch.exp(k_t - scale)
        numerator = kept * numerator + added * v_t
        denominator = kept * denominator + added
    return [torch.stack(parts) for parts in zip(*found, strict=True)]
