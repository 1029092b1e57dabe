"""DiT written plainly from its paper (Peebles and Xie, ICCV 2023) with timm's layers, and its plain training loop.

Parameters are named as in the authors' release, so weights of ours load. Nothing here imports the project: it is what a
user would write who has read the paper, computed eagerly in float32.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
import torch.nn.functional as F
from timm.models.vision_transformer import Attention, Mlp, PatchEmbed
from torch import Tensor, nn

FREQUENCIES = 256


def modulate(x: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
    return x * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)


class TimestepEmbedder(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(FREQUENCIES, width), nn.SiLU(), nn.Linear(width, width))

    def forward(self, t: Tensor) -> Tensor:
        half = FREQUENCIES // 2
        frequencies = torch.exp(-math.log(10000) * torch.arange(half, dtype=torch.float32, device=t.device) / half)
        arguments = t[:, None].float() * frequencies[None]
        return self.mlp(torch.cat([torch.cos(arguments), torch.sin(arguments)], dim=-1))


class LabelEmbedder(nn.Module):
    def __init__(self, num_classes: int, width: int) -> None:
        super().__init__()
        self.embedding_table = nn.Embedding(num_classes + 1, width)

    def forward(self, labels: Tensor) -> Tensor:
        return self.embedding_table(labels)


class DiTBlock(nn.Module):
    """adaLN-Zero (section 3.2)."""

    def __init__(self, width: int, heads: int, mlp_ratio: float) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.attn = Attention(width, num_heads=heads, qkv_bias=True)
        self.norm2 = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.mlp = Mlp(width, int(width * mlp_ratio), act_layer=lambda: nn.GELU(approximate="tanh"))
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))

    def forward(self, x: Tensor, c: Tensor) -> Tensor:
        shift_msa, scale_msa, gate_msa, shift_mlp, scale_mlp, gate_mlp = self.adaLN_modulation(c).chunk(6, dim=1)
        x = x + gate_msa.unsqueeze(1) * self.attn(modulate(self.norm1(x), shift_msa, scale_msa))
        return x + gate_mlp.unsqueeze(1) * self.mlp(modulate(self.norm2(x), shift_mlp, scale_mlp))


class FinalLayer(nn.Module):
    def __init__(self, width: int, patch: int, out_channels: int) -> None:
        super().__init__()
        self.norm_final = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.linear = nn.Linear(width, patch * patch * out_channels)
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 2 * width))

    def forward(self, x: Tensor, c: Tensor) -> Tensor:
        shift, scale = self.adaLN_modulation(c).chunk(2, dim=1)
        return self.linear(modulate(self.norm_final(x), shift, scale))


class PlainDiT(nn.Module):
    """Images (B, C, S, S) at times t (B,) with labels y (B,) to predictions (B, C, S, S), without the learned sigma."""

    def __init__(
        self,
        *,
        image_size: int,
        patch: int,
        channels: int,
        num_classes: int,
        depth: int,
        hidden: int,
        heads: int,
        mlp_ratio: float = 4.0,
        learn_sigma: bool = True,
    ) -> None:
        super().__init__()
        self.channels = channels
        self.patch = patch
        self.out_channels = channels * 2 if learn_sigma else channels
        self.x_embedder = PatchEmbed(image_size, patch, channels, hidden)
        self.t_embedder = TimestepEmbedder(hidden)
        self.y_embedder = LabelEmbedder(num_classes, hidden)
        self.pos_embed = nn.Parameter(torch.zeros(1, (image_size // patch) ** 2, hidden), requires_grad=False)
        self.blocks = nn.ModuleList(DiTBlock(hidden, heads, mlp_ratio) for _ in range(depth))
        self.final_layer = FinalLayer(hidden, patch, self.out_channels)

    def forward(self, x: Tensor, t: Tensor, y: Tensor) -> Tensor:
        x = self.x_embedder(x) + self.pos_embed
        c = self.t_embedder(t) + self.y_embedder(y)
        for block in self.blocks:
            x = block(x, c)
        return self.unpatchify(self.final_layer(x, c))[:, : self.channels]

    def unpatchify(self, x: Tensor) -> Tensor:
        side = round(x.shape[1] ** 0.5)
        x = x.reshape(len(x), side, side, self.patch, self.patch, self.out_channels)
        x = torch.einsum("nhwpqc->nchpwq", x)
        return x.reshape(len(x), self.out_channels, side * self.patch, side * self.patch)


class RoutedDiT(PlainDiT):
    """The same with a route written by hand: the tokens `ids` (B, K) pass its blocks, and the others bypass them."""

    def __init__(self, route: range, **sizes: Any) -> None:
        super().__init__(**sizes)
        self.route = route

    def forward(self, x: Tensor, t: Tensor, y: Tensor, ids: Tensor | None = None) -> Tensor:
        x = self.x_embedder(x) + self.pos_embed
        c = self.t_embedder(t) + self.y_embedder(y)
        for number, block in enumerate(self.blocks):
            if ids is not None and number == self.route.start:
                whole, places = x, ids[:, :, None].expand(-1, -1, x.shape[2])
                x = x.gather(1, places)
            x = block(x, c)
            if ids is not None and number == self.route.stop - 1:
                x = whole.scatter(1, places, x)
        return self.unpatchify(self.final_layer(x, c))[:, : self.channels]


class PlainTraining:
    """The training loop of published code: AdamW, and an average of the weights, parameter by parameter."""

    def __init__(self, model: nn.Module, learning_rate: float, betas: tuple[float, float], weight_decay: float) -> None:
        self.model = model
        self.ema = copy.deepcopy(model).requires_grad_(False)
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, betas=betas, weight_decay=weight_decay)

    def loss(self, x: Tensor, y: Tensor, t: Tensor, noise: Tensor, *ids: Tensor) -> Tensor:
        """Of flow matching with velocity prediction."""
        weight = t.view(-1, 1, 1, 1)
        x_t = (1 - weight) * x + weight * noise
        return F.mse_loss(self.model(x_t, t, y, *ids), noise - x)

    def step(self, x: Tensor, y: Tensor, t: Tensor, noise: Tensor, ema_decay: float, *ids: Tensor) -> Tensor:
        """One step of training; the loss before it."""
        loss = self.loss(x, y, t, noise, *ids)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.update_ema(ema_decay)
        return loss.detach()

    @torch.no_grad()
    def update_ema(self, decay: float) -> None:
        averages = dict(self.ema.named_parameters())
        for name, parameter in self.model.named_parameters():
            averages[name].mul_(decay).add_(parameter.data, alpha=1 - decay)


class FusedTraining(PlainTraining):
    """The same with torch's fused AdamW, and all averages updated together."""

    def __init__(self, model: nn.Module, learning_rate: float, betas: tuple[float, float], weight_decay: float) -> None:
        super().__init__(model, learning_rate, betas, weight_decay)
        self.weights: list[Tensor] = [*model.parameters()]
        self.averages: list[Tensor] = [*self.ema.parameters()]
        self.optimizer = torch.optim.AdamW(
            self.weights, lr=learning_rate, betas=betas, weight_decay=weight_decay, fused=True
        )

    @torch.no_grad()
    def update_ema(self, decay: float) -> None:
        torch._foreach_lerp_(self.averages, self.weights, 1 - decay)
