"""Gated linear attention (Yang et al., arXiv 2312.06635) as DiG has it (Zhu et al., arXiv 2405.18428).

    S_t = diag(e^{g_t}) S_{t-1} + k_t v_t^T,    y_t = S_t^T q_t / sqrt(E),    g = logsigmoid(W_2 W_1 x + b) / 16

Parameter names match the release of DiG.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch.nn.functional as F
from torch import Tensor, nn

from tread_bench.backbones.mixers.base import GatedNorm, Mixer, raised, recurrence_kernel, split_heads, wide
from tread_bench.backbones.mixers.gla.family import GATE_DIVISOR, GATE_RANK
from tread_bench.core.describe.mixers import MixerSize
from tread_bench.model.ops.recurrence import linear_recurrence


class GatedLinearAttention(Mixer):
    """Heads are normed and gated by silu before the projection out."""

    def __init__(self, size: MixerSize, kernels: Mapping[str, str]) -> None:
        super().__init__()
        width = size.width
        self.kernel = recurrence_kernel(kernels)
        self.heads = size.heads
        self.q_proj, self.k_proj = (nn.Linear(width, width // 2, bias=False) for _ in range(2))
        self.v_proj, self.g_proj = (nn.Linear(width, width, bias=False) for _ in range(2))
        self.gk_proj = nn.Sequential(nn.Linear(width, GATE_RANK, bias=False), nn.Linear(GATE_RANK, width // 2))
        self.g_norm_swish_gate = GatedNorm(width // size.heads, eps=1e-6)
        self.o_proj = nn.Linear(width, width, bias=False)

    def forward(self, x_BLD: Tensor, steps_BL: Tensor | None = None) -> Tensor:
        projections = (self.q_proj, self.k_proj, self.v_proj, self.gk_proj)
        q, k, v, decays = (split_heads(projection(x_BLD), self.heads) for projection in projections)
        g = raised(F.logsigmoid(wide(decays)) / GATE_DIVISOR, steps_BL)
        y = linear_recurrence(q * q.shape[-1] ** -0.5, k, v, g, self.kernel).transpose(1, 2)
        gated = self.g_norm_swish_gate(y, self.g_proj(x_BLD).unflatten(2, (self.heads, -1)))
        return self.o_proj(gated.flatten(2))
