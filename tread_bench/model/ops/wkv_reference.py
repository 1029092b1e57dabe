"""Bi-WKV exactly as its formula, slow and simple: the reference for every other formulation."""

from __future__ import annotations

import torch
from torch import Tensor


def bi_wkv_reference(w: Tensor, u: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Compute `ops.wkv.bi_wkv` as a sum over all pairs of tokens, in the inputs' dtype (pass float64).

    Differentiable any number of times. Memory grows with B T^2 C.
    """
    places = torch.arange(k.shape[1], device=k.device)
    distance_TT1 = (places[:, None] - places).abs()[..., None]
    bias_TTC = torch.where(distance_TT1 == 0, u, -(distance_TT1 - 1) * w)
    weights_BTTC = (k[:, None] + bias_TTC).softmax(dim=2)
    return (weights_BTTC * v[:, None]).sum(2)
