"""Mamba's mixer (Gu and Dao, arXiv 2312.00752, figure 3), in one direction or, as in Vision Mamba and DiS, in both.

Parameter names match `mamba_ssm.Mamba`, and for the backward direction DiS's fork of it, so weights load. Shapes: B
batch, L tokens, D width, E inner channels, N states, R channels of the step size.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tread_bench.backbones.mamba.family import CONV, EXPAND, STATE, step_rank
from tread_bench.backbones.mixers.base import Mixer, init_step_bias
from tread_bench.core.describe.mixers import MixerSize
from tread_bench.model.ops.conv import causal_conv
from tread_bench.model.ops.scan import prepare_scan, selective_scan


def mamba_mixer(size: MixerSize, kernels: Mapping[str, str]) -> Mamba:
    """Return the mixer of these sizes; the scan has its own kernels."""
    return Mamba(size.width, kernels.get("scan", "torch"), bidirectional=size.directions == 2)


class Mamba(Mixer):
    """(B, L, D) to (B, L, D): gated convolution and selective scan along L; both directions share the projections."""

    def __init__(self, width: int, scan_kernel: str, bidirectional: bool = False) -> None:
        super().__init__()
        inner = EXPAND * width
        rank = step_rank(width)
        self.scan_kernel = scan_kernel
        self.bidirectional = bidirectional

        # Shared by both directions, then separate for each.
        self.in_proj = nn.Linear(width, 2 * inner, bias=False)
        self.conv1d, self.x_proj, self.dt_proj = _projections(inner, rank)
        self.A_log = nn.Parameter(torch.empty(inner, STATE))
        self.D = nn.Parameter(torch.empty(inner))
        if bidirectional:
            self.conv1d_b, self.x_proj_b, self.dt_proj_b = _projections(inner, rank)
            self.A_b_log = nn.Parameter(torch.empty(inner, STATE))
            self.D_b = nn.Parameter(torch.empty(inner))
        self.out_proj = nn.Linear(inner, width, bias=False)
        prepare_scan(scan_kernel)

    def forward(self, hidden_BLD: Tensor, steps_BL: Tensor | None = None) -> Tensor:
        assert steps_BL is None, "a step of the scan is decay and input in one"
        x, z = (half.contiguous() for half in self.in_proj(hidden_BLD).chunk(2, dim=2))  # (B, L, E) each
        y = self._scan(x, z, False, self.conv1d, self.x_proj, self.dt_proj, self.A_log, self.D)
        if self.bidirectional:
            backward = (self.conv1d_b, self.x_proj_b, self.dt_proj_b, self.A_b_log, self.D_b)
            y = y + self._scan(x, z, True, *backward)
        return self.out_proj(y.contiguous())

    def _scan(
        self,
        x: Tensor,
        z: Tensor,
        reverse: bool,
        conv: nn.Conv1d,
        x_proj: nn.Linear,
        dt_proj: nn.Linear,
        A_log: Tensor,
        D: Tensor,
    ) -> Tensor:
        """Scan x (B, L, E) in one direction, gated by z."""
        assert conv.bias is not None, "the convolution has one"
        u = causal_conv(x, conv.weight.squeeze(1), conv.bias, reverse, self.scan_kernel)
        delta, B, C = x_proj(u.contiguous()).split([dt_proj.in_features, STATE, STATE], dim=-1)
        delta = F.linear(delta, dt_proj.weight)
        return selective_scan(u, delta, -A_log.exp(), B, C, D, z, dt_proj.bias, True, reverse, self.scan_kernel)

    def init_part(self, name: str, part: nn.Module) -> None:
        """Draw torch's default weights, and Mamba's own where they differ."""
        if (reset := getattr(part, "reset_parameters", None)) is not None:
            reset()
        init_mamba(f"mixer.{name}", part, depth=1)


def _projections(inner: int, rank: int) -> tuple[nn.Conv1d, nn.Linear, nn.Linear]:
    """One direction's causal convolution, and the projections to (delta, B, C) and from delta's channels."""
    conv = nn.Conv1d(inner, inner, CONV, groups=inner, padding=CONV - 1)
    return conv, nn.Linear(inner, rank + 2 * STATE, bias=False), nn.Linear(rank, inner)


def drop_rates(rate: float, depth: int, blocks: int) -> list[float]:
    """Return the drop path rate of each block as in DiS and ZigMa: linear from 0 to `rate` over `depth` blocks.

    DiS has one block more than its depth, so its last block has the full rate; in ZigMa the last block stays just below
    it.
    """
    return [0.0, *torch.linspace(0, rate, depth, device="cpu").tolist()][:blocks]


def init_mamba(name: str, module: nn.Module, depth: int) -> None:
    """Apply the initial weights of DiS and ZigMa where they differ from torch's defaults.

    These are state spaces, step sizes, embeddings N(0, 0.02) and biases 0. Output projections are scaled down by the
    square root of depth. Step sizes of the backward direction are left as an ordinary linear layer, as in the release.
    """
    if isinstance(module, Mamba):
        _init_states(module)
    elif isinstance(module, nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
    elif isinstance(module, nn.Linear) and name.endswith(".dt_proj"):
        _init_steps(module)
    elif isinstance(module, nn.Linear) and name.endswith(".out_proj"):
        module.weight.div_(math.sqrt(depth))
    elif isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)


def _init_states(mixer: Mamba) -> None:
    """Set A = -1 .. -N in every channel, D = 1."""
    for name, parameter in mixer.named_parameters(recurse=False):
        if name.startswith("A"):
            parameter.copy_(torch.arange(1, STATE + 1).log().expand_as(parameter))
        else:
            nn.init.ones_(parameter)


def _init_steps(dt_proj: nn.Linear) -> None:
    """Draw biases so that softplus(bias) is log-uniform in [0.001, 0.1]."""
    bound = dt_proj.in_features**-0.5
    nn.init.uniform_(dt_proj.weight, -bound, bound)
    init_step_bias(dt_proj.bias)
