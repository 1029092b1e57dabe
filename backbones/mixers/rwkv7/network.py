"""RWKV-7's time mixing (Peng et al., "RWKV-7 Goose", arXiv 2503.14456).

    S_t = diag(w_t) S_{t-1} + (a_t kk_t) (-kk_t^T S_{t-1}) + k_t v_t^T,    y_t = S_t^T r_t

w = exp(-e^{-1/2} sigmoid(..)), a = sigmoid(..), kk is a normalised key. Each input is mixed with the token before.
Values are drawn towards those of the first block that a token passed. Parameter names are those of
flash-linear-attention.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tread_bench.backbones.mixers.base import Mixer, raised, recurrence_kernel, split_heads, wide
from tread_bench.backbones.mixers.rwkv7.family import ranks
from tread_bench.core.describe.mixers import MixerSize
from tread_bench.model.ops.recurrence import delta_recurrence

MIXED = {"r": 0.2, "w": 0.9, "k": 0.7, "v": 0.7, "a": 0.9, "g": 0.2}  # inputs, with the power of their initial ramp


class LowRank(nn.Module):
    """A projection through a few channels."""

    def __init__(self, width: int, rank: int, activation: nn.Module, bias: bool) -> None:
        super().__init__()
        self.lora = nn.Sequential(nn.Linear(width, rank, bias=False), activation, nn.Linear(rank, width, bias=bias))

    def forward(self, x_BLD: Tensor) -> Tensor:
        return self.lora(x_BLD)


class RWKV7(Mixer):
    """Heads are normed, get a bonus for the token itself, and are gated before the projection out."""

    w_lora: LowRank
    a_lora: LowRank
    v_lora: LowRank  # not in the first block
    g_lora: LowRank

    def __init__(self, size: MixerSize, kernels: Mapping[str, str]) -> None:
        super().__init__()
        self.size = size
        self.kernel = recurrence_kernel(kernels)
        width = size.width
        for name in MIXED:
            setattr(self, f"x_{name}", nn.Parameter(torch.empty(1, 1, width)))
        self.k_k, self.k_a = (nn.Parameter(torch.empty(width)) for _ in range(2))
        self.r_k = nn.Parameter(torch.empty(size.heads, width // size.heads))
        self.r_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(width, width, bias=False) for _ in range(4))
        activations = {"w": nn.Tanh(), "g": nn.Sigmoid()}
        for name, rank in ranks(size).items():
            low_rank = LowRank(width, rank, activations.get(name, nn.Identity()), bias=name != "g")
            setattr(self, f"{name}_lora", low_rank)
        self.g_norm = nn.GroupNorm(size.heads, width, eps=width / size.heads * 1e-5)

    def mix_sharing(self, x_BLD: Tensor, steps_BL: Tensor | None, values_BLD: Tensor) -> tuple[Tensor, Tensor]:
        # Each input is mixed with the token before.
        heads = self.size.heads
        change = F.pad(x_BLD, (0, 0, 1, -1)) - x_BLD
        xr, xw, xk, xv, xa, xg = (x_BLD + change * getattr(self, f"x_{name}") for name in MIXED)
        r, k, v = self.r_proj(xr), self.k_proj(xk), self.v_proj(xv)

        # Values are drawn towards the first ones that the token had.
        has_values = (values_BLD != 0).any(dim=2, keepdim=True)
        values_BLD = torch.where(has_values, values_BLD, v.to(values_BLD.dtype))
        if "v" in ranks(self.size):
            v = torch.lerp(v, values_BLD.to(v.dtype), self.v_lora(xv).sigmoid().to(v.dtype))

        # The delta rule: keys that are removed, and with which strength they are written again.
        strength = self.a_lora(xa).sigmoid()
        removed = F.normalize(split_heads(wide(k * self.k_k), heads), dim=-1)
        k = k * (1 + (strength - 1) * self.k_a)
        decays = -math.exp(-0.5) * wide(self.w_lora(xw)).sigmoid()
        r, k, v, strength, decays = (split_heads(part, heads) for part in (r, k, v, strength, decays))

        # What is removed is read from a state that has decayed for the skipped tokens before this one.
        read = removed if steps_BL is None else removed * raised(decays, steps_BL - 1).exp()
        y = delta_recurrence(r, k, v, raised(decays, steps_BL), -read, removed * strength, self.kernel)

        # Norm each head, add the bonus, gate and project.
        y = self.g_norm(y.transpose(1, 2).flatten(2).flatten(0, 1)).view_as(x_BLD)
        bonus = (r * k * self.r_k.unsqueeze(1)).sum(-1, keepdim=True) * v
        return self.o_proj((y + bonus.transpose(1, 2).flatten(2)) * self.g_lora(xg)), values_BLD

    def reset_parameters(self) -> None:
        """Set mixes, keys and bonus as RWKV-7 does, by channel and depth."""
        width = self.size.width
        late = 1 - self.size.block / self.size.depth
        channel = torch.arange(width)
        for name, power in MIXED.items():
            getattr(self, f"x_{name}").copy_((1 - (channel / width) ** (power * late)).view(1, 1, -1))
        self.k_k.copy_(0.71 - 0.1 * (channel / max(width - 1, 1) - 0.5))
        nn.init.constant_(self.k_a, 1.02)
        nn.init.constant_(self.r_k, -0.04)

    def init_part(self, name: str, part: nn.Module) -> None:
        """Low-rank projections start at their biases; the projection out does not start at zero, as DiG's gates do."""
        super().init_part(name, part)
        owner, _, layer = name.partition("_lora.lora.")
        if layer == "0":
            nn.init.zeros_(part.weight)  # type: ignore[arg-type]
        elif layer == "2":
            nn.init.orthogonal_(part.weight, gain=0.1)  # type: ignore[arg-type]
            if isinstance(part.bias, Tensor):
                part.bias.copy_(self._bias(owner))

    def _bias(self, name: str) -> Tensor:
        """RWKV-7's biases of decay, strength and values, by channel, by channel of a head, and by depth."""
        width, head = self.size.width, self.size.width // self.size.heads
        ramp = torch.arange(width) / max(width - 1, 1)
        zigzag = ((torch.arange(width) % head) / max(head - 1, 1)) * 2 - 1
        zigzag = zigzag * zigzag.abs()
        late = self.size.block / max(self.size.depth - 1, 1)
        return {
            "w": -6 + 6 * ramp ** (1 + late**0.3) + 0.5 + 2.5 * zigzag,
            "a": -0.19 + 0.3 * zigzag + 0.4 * (ramp - 0.5),
            "v": 0.73 - 0.4 * (ramp - 0.5),
        }[name]
