"""Mamba-2 (Dao and Gu, "Transformers are SSMs", arXiv 2405.21060): a selective scan with one decay per head.

    S_t = e^{dt_t A} S_{t-1} + B_t (dt_t x_t)^T,    y_t = S_t^T C_t + D x_t

x, B and C are convolved; the output is gated by silu(z), normed and projected. In both directions, the projections and
the norm are shared, and convolution, A, D and the bias of dt are each direction's own, as DiS has it for Mamba; the
outputs of both are summed before the gate. Parameter names are those of `mamba_ssm.Mamba2`.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tread_bench.backbones.mamba.family import EXPAND
from tread_bench.backbones.mixers.base import (
    Mixer,
    ShortConvolution,
    init_decays,
    raised,
    recurrence_kernel,
    softplus_decays,
    split_heads,
)
from tread_bench.backbones.mixers.mamba2.family import STATE, num_heads
from tread_bench.core.describe.mixers import MixerSize
from tread_bench.model.ops.recurrence import linear_recurrence


class Mamba2(Mixer):
    """Keys B and queries C are the same for all heads."""

    def __init__(self, size: MixerSize, kernels: Mapping[str, str]) -> None:
        super().__init__()
        inner = EXPAND * size.width
        self.kernel = recurrence_kernel(kernels)
        self.heads = num_heads(size.width)
        self.suffixes = ("", "_b")[: size.directions]
        self.in_proj = nn.Linear(size.width, 2 * inner + 2 * STATE + self.heads, bias=False)
        for suffix in self.suffixes:
            setattr(self, f"conv1d{suffix}", ShortConvolution(inner + 2 * STATE, bias=True))
            for name in ("A_log", "D", "dt_bias"):
                setattr(self, name + suffix, nn.Parameter(torch.empty(self.heads)))
        self.norm = nn.RMSNorm(inner, eps=1e-5)
        self.out_proj = nn.Linear(inner, size.width, bias=False)

    def forward(self, x_BLD: Tensor, steps_BL: Tensor | None = None) -> Tensor:
        assert steps_BL is None or len(self.suffixes) == 1, "skipped tokens are counted from one end"
        inner = self.norm.weight.numel()
        z, convolved, dt = self.in_proj(x_BLD).split([inner, inner + 2 * STATE, self.heads], dim=2)
        y = sum(self._scan(convolved, dt, steps_BL, suffix) for suffix in self.suffixes)
        return self.out_proj(self.norm(y.to(self.norm.weight.dtype) * F.silu(z)))  # type: ignore[union-attr]

    def _scan(self, convolved_BLC: Tensor, dt_BLH: Tensor, steps_BL: Tensor | None, suffix: str) -> Tensor:
        """Scan in one direction, (B, L, inner); the backward one runs over the reversed sequence."""
        A_log, D, dt_bias = (getattr(self, name + suffix) for name in ("A_log", "D", "dt_bias"))
        if suffix:
            convolved_BLC, dt_BLH = convolved_BLC.flip(1), dt_BLH.flip(1)
        inner = convolved_BLC.shape[2] - 2 * STATE
        x, B, C = getattr(self, f"conv1d{suffix}")(convolved_BLC).split([inner, STATE, STATE], dim=2)
        dt, decays = softplus_decays(dt_BLH, A_log, dt_bias)
        x, dt, decays = (split_heads(part, self.heads) for part in (x, dt, decays))
        y = linear_recurrence(C.unsqueeze(1), B.unsqueeze(1), dt * x, raised(decays, steps_BL), self.kernel)
        y_BLC = (y + D.view(-1, 1, 1) * x).transpose(1, 2).flatten(2)
        return y_BLC.flip(1) if suffix else y_BLC

    def reset_parameters(self) -> None:
        """Draw rates in [1, 16], and steps as in Mamba; set D = 1."""
        for suffix in self.suffixes:
            init_decays(getattr(self, f"A_log{suffix}"), getattr(self, f"dt_bias{suffix}"), low=1)
            nn.init.ones_(getattr(self, f"D{suffix}"))
