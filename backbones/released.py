"""Weights of other releases converted to this project's time: t = 0 is data, t = 1 is noise, v = noise - data.

The adapters have the parameter names of the authors' releases, so that their weights load without an error. But weights
do not say what the network learned: SiT, LightningDiT and JiT were trained with t = 1 as data, DiT to predict the noise
at DDPM's steps 0 to 999. Loaded without conversion, they would sample wrongly.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn

DDPM_STEPS = 1000  # steps of the released DiT; betas are linear
FIRST_BETA = 1e-4
LAST_BETA = 0.02


def reversed_time(weights: Mapping[str, Tensor], predicts_velocity: bool = True) -> dict[str, Tensor]:
    """Convert weights of a released SiT, LightningDiT or JiT to this project's time; load the result instead of them.

    Their path is x_s = s x + (1 - s) noise with velocity x - noise, which at s = 1 - t is the same x_t and -v. The
    embedding sees [cos, sin] of (1 - t) f, a rotation of [cos, sin] of t f, which is absorbed into the first layer of
    the time MLP; the last layer's sign is flipped.

    Args:
        predicts_velocity: False for JiT, which predicts the data: its last layer stays.

    Raises:
        KeyError: these are not weights of such a network.
    """
    # Absorb the rotation to the embedding of 1 - t into the first layer.
    turned = dict(weights)
    first = turned["t_embedder.mlp.0.weight"].double()  # (D, [cos, sin])
    half = first.shape[1] // 2
    frequencies = torch.exp(-math.log(10000.0) * torch.arange(half, dtype=torch.float64, device=first.device) / half)
    cos, sin = frequencies.cos(), frequencies.sin()
    of_cos, of_sin = first[:, :half], first[:, half:]
    both = torch.cat([of_cos * cos + of_sin * sin, of_cos * sin - of_sin * cos], dim=1)
    turned["t_embedder.mlp.0.weight"] = both.to(weights["t_embedder.mlp.0.weight"].dtype)

    # Flip the sign of the velocity in the last layer.
    if predicts_velocity:
        turned |= {name: -value for name, value in weights.items() if name.startswith("final_layer.linear.")}
    return turned


class VelocityOfDDPM(nn.Module):
    """A released DiT as this project's flow: called like a backbone, it computes v from the predicted noise.

    DDPM's z_k = sqrt(a_k) x + sqrt(1 - a_k) noise is x_t = (1 - t) x + t noise up to a factor, if both have the same
    ratio of noise to data, sqrt(1 - a_k) / sqrt(a_k) = t / (1 - t). Between two steps, k is interpolated in the
    logarithm of that ratio. DDPM covers t from 0.0099 to 0.9937; outside, the nearest end is used.
    """

    ratios: Tensor  # (1000,) ratios of noise to data, ascending

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        kept = torch.cumprod(1 - torch.linspace(FIRST_BETA, LAST_BETA, DDPM_STEPS, dtype=torch.float64), dim=0)
        self.register_buffer("ratios", ((1 - kept) / kept).sqrt(), persistent=False)

    def forward(self, x: Tensor, t: Tensor, y: Tensor | None = None) -> Tensor:
        """Map x_t (B, C, H, W), t (B,) from 0 (data) to 1 (noise) and labels y (B,) to the velocity (B, C, H, W)."""
        ratio_B = (t.double() / (1 - t.double())).clamp(self.ratios[0], self.ratios[-1])
        ratio = ratio_B.view(-1, *(1,) * (x.ndim - 1))
        z = x.double() * (1 + ratio) / (1 + ratio.square()).sqrt()
        noise = self.model(z.to(x.dtype), self.steps(ratio_B).to(x.dtype), y)
        return ((noise.double() - x.double()) * (1 + ratio)).to(x.dtype)

    def steps(self, ratio_B: Tensor) -> Tensor:
        """Return the steps in 0 .. 999, interpolated, at which noise has that ratio to data."""
        logarithms = self.ratios.log()
        above = torch.searchsorted(self.ratios, ratio_B).clamp(1, DDPM_STEPS - 1)
        first, last = logarithms[above - 1], logarithms[above]
        return above - 1 + (ratio_B.log() - first) / (last - first)
