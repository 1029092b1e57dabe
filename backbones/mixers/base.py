"""What mixers share. Shapes: B batch, L tokens in the order of the scan, D width, H heads, E channels of a head."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tread_bench.backbones.mamba.family import CONV
from tread_bench.model.ops.conv import causal_conv
from tread_bench.model.ops.recurrence import prepare_recurrence


class Mixer(nn.Module):
    """(B, L, D) to (B, L, D), along L."""

    def forward(self, x_BLD: Tensor, steps_BL: Tensor | None = None) -> Tensor:
        """Mix the tokens; decays before each token are raised to the power of `steps_BL` (None: 1 everywhere)."""
        raise NotImplementedError

    def mix_sharing(self, x_BLD: Tensor, steps_BL: Tensor | None, values_BLD: Tensor) -> tuple[Tensor, Tensor]:
        """Mix the tokens of a mixer that shares values; also return the values (B, L, D), where all tokens have some.

        Args:
            values_BLD: of the first block that each token passed; zeros where this block is the first.
        """
        raise NotImplementedError

    def init_part(self, name: str, part: nn.Module) -> None:
        """Draw the parameters that `part` itself owns, by its name within the mixer: Xavier with gain 2^-2.5."""
        if isinstance(part, nn.Linear):
            nn.init.xavier_uniform_(part.weight, gain=2**-2.5)
            if part.bias is not None:
                nn.init.zeros_(part.bias)
        elif (reset := getattr(part, "reset_parameters", None)) is not None:
            reset()


class ShortConvolution(nn.Conv1d):
    """Causal depthwise convolution and silu, (B, L, D) to (B, L, D)."""

    def __init__(self, width: int, bias: bool) -> None:
        super().__init__(width, width, CONV, groups=width, padding=CONV - 1, bias=bias)

    def forward(self, x_BLD: Tensor) -> Tensor:
        return causal_conv(x_BLD, self.weight.squeeze(1), self.bias)


class GatedNorm(nn.RMSNorm):
    """RMSNorm of each head, times silu of a gate."""

    def forward(self, y_BLHE: Tensor, gate_BLHE: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(y_BLHE.to(self.weight.dtype)) * F.silu(gate_BLHE)


def recurrence_kernel(kernels: Mapping[str, str]) -> str:
    """Return the name of the recurrence's formulation, once it is compiled."""
    kernel = kernels.get("recurrence", "torch")
    prepare_recurrence(kernel)
    return kernel


def split_heads(x_BLD: Tensor, heads: int) -> Tensor:
    """(B, L, D) to (B, H, L, E)."""
    return x_BLD.unflatten(2, (heads, -1)).transpose(1, 2)


def wide(x: Tensor) -> Tensor:
    """Return x in float32 or wider, also under autocast."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def raised(g_BHLE: Tensor, steps_BL: Tensor | None) -> Tensor:
    """Return the logarithms of decays, raised to the power of `steps_BL`."""
    return g_BHLE if steps_BL is None else g_BHLE * steps_BL[:, None, :, None]


def softplus_decays(steps_BLH: Tensor, A_log: Tensor, dt_bias: Tensor) -> tuple[Tensor, Tensor]:
    """Return Mamba-2's steps softplus(steps + dt_bias) and logarithms of decays, -exp(A_log) times those: (B, L, H)."""
    dt_BLH = F.softplus(wide(steps_BLH) + dt_bias)
    return dt_BLH, -A_log.exp() * dt_BLH


def init_step_bias(bias: Tensor) -> None:
    """Draw biases so that softplus(bias) is log-uniform in [0.001, 0.1]."""
    step = torch.empty_like(bias).uniform_(math.log(0.001), math.log(0.1)).exp()
    bias.copy_(step + (-torch.expm1(-step)).log())


def init_decays(A_log: Tensor, dt_bias: Tensor, low: float) -> None:
    """Draw rates uniformly in [low, 16], and biases of the steps as in Mamba."""
    A_log.copy_(torch.empty_like(A_log).uniform_(low, 16).log())
    init_step_bias(dt_bias)
