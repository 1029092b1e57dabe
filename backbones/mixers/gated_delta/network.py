"""Gated DeltaNet (Yang et al., "Gated Delta Networks: Improving Mamba2 with Delta Rule", arXiv 2412.06464).

    S' = e^{g_t} S_{t-1},    S_t = S' + beta_t k_t (v_t - S'^T k_t)^T,    y_t = S_t^T q_t / sqrt(E)

q, k and v are convolved, and q and k normalised; beta = sigmoid(W_b x), g = -exp(A_log) softplus(W_a x + dt_bias).
Parameter names are those of flash-linear-attention.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tread_bench.backbones.mixers.base import (
    GatedNorm,
    Mixer,
    ShortConvolution,
    init_decays,
    raised,
    recurrence_kernel,
    softplus_decays,
    split_heads,
)
from tread_bench.backbones.mixers.gated_delta.family import EXPAND_V
from tread_bench.core.describe.mixers import MixerSize
from tread_bench.model.ops.recurrence import gated_delta_rule


class GatedDeltaNet(Mixer):
    """Heads are normed and gated by silu before the projection out."""

    def __init__(self, size: MixerSize, kernels: Mapping[str, str]) -> None:
        super().__init__()
        width, inner = size.width, EXPAND_V * size.width
        self.kernel = recurrence_kernel(kernels)
        self.heads = size.heads
        self.q_proj, self.k_proj = (nn.Linear(width, width, bias=False) for _ in range(2))
        self.v_proj, self.g_proj = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.a_proj, self.b_proj = (nn.Linear(width, size.heads, bias=False) for _ in range(2))
        self.q_conv1d, self.k_conv1d = (ShortConvolution(width, bias=False) for _ in range(2))
        self.v_conv1d = ShortConvolution(inner, bias=False)
        self.A_log, self.dt_bias = (nn.Parameter(torch.empty(size.heads)) for _ in range(2))
        self.o_norm = GatedNorm(inner // size.heads, eps=1e-5)
        self.o_proj = nn.Linear(inner, width, bias=False)

    def forward(self, x_BLD: Tensor, steps_BL: Tensor | None = None) -> Tensor:
        # Queries, keys and values, convolved; a decay and a strength for each head.
        q = F.normalize(split_heads(self.q_conv1d(self.q_proj(x_BLD)), self.heads), dim=-1)
        k = F.normalize(split_heads(self.k_conv1d(self.k_proj(x_BLD)), self.heads), dim=-1)
        v = split_heads(self.v_conv1d(self.v_proj(x_BLD)), self.heads)
        _, decays = softplus_decays(self.a_proj(x_BLD), self.A_log, self.dt_bias)
        g = raised(split_heads(decays, self.heads), steps_BL)  # (B, H, L, 1)
        beta = split_heads(self.b_proj(x_BLD).sigmoid(), self.heads)

        # What the state holds for a key is read after the decay, and replaced in part.
        y = gated_delta_rule(q * q.shape[-1] ** -0.5, k, v, g, beta, self.kernel).transpose(1, 2)
        gated = self.o_norm(y, self.g_proj(x_BLD).unflatten(2, (self.heads, -1)))
        return self.o_proj(gated.flatten(2))

    def reset_parameters(self) -> None:
        """Draw rates in [1e-3, 16], and steps as in Mamba."""
        init_decays(self.A_log, self.dt_bias, low=1e-3)
