"""Cosine similarity of token outputs: pure functions of tensors.

Shapes: T times, L layers, M tokens of all samples, D width.
"""

from __future__ import annotations

import torch
from torch import Tensor


def unit_vectors(outputs: Tensor) -> Tensor:
    """Scale every token to length 1, in float64."""
    return torch.nn.functional.normalize(outputs.double(), dim=-1)


def cosine_between_layers(unit_TLMD: Tensor) -> Tensor:
    """Return (L, L): cosine of two layers' outputs of a token at one time, averaged over tokens and times."""
    times, _, tokens, _ = unit_TLMD.shape
    return torch.einsum("tlmd,tkmd->lk", unit_TLMD, unit_TLMD) / (times * tokens)


def cosine_across_times(unit_TLMD: Tensor) -> Tensor:
    """Return (L, T, T): cosine of one layer's outputs of a token at two times, averaged over tokens."""
    return torch.einsum("tlmd,slmd->lts", unit_TLMD, unit_TLMD) / unit_TLMD.shape[2]
