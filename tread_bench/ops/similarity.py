"""Cosine similarity between layers: a pure function of tensors."""

from __future__ import annotations

import torch
from torch import Tensor


def cosine_matrix(outputs_LBND: Tensor) -> Tensor:
    """(L, L), float64: cosine of the angle between two layers' outputs of a token, averaged over samples and tokens."""
    unit = torch.nn.functional.normalize(outputs_LBND.double(), dim=-1).flatten(1)
    tokens = outputs_LBND.shape[1] * outputs_LBND.shape[2]
    return unit @ unit.T / tokens
