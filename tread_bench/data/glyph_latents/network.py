"""A small variational autoencoder (Kingma & Welling, ICLR 2014), convolutional as those of latent diffusion."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from tread_bench.data.glyph_latents.family import LATENT_CHANNELS


class GlyphsAutoencoder(nn.Module):
    """Images (B, 1, S, S) in [-1, 1] to latents (B, 2, S/2, S/2) and back; `forward` decodes.

    A latent is the mean of its posterior. Each channel is brought to mean 0 and standard deviation 1 over the training
    images, so that a diffusion model needs no further scale.
    """

    mean: Tensor
    std: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.SiLU(),
            nn.Conv2d(16, 32, 4, stride=2, padding=1),
            nn.SiLU(),
            nn.Conv2d(32, 2 * LATENT_CHANNELS, 3, padding=1),
        )
        self.decoder = nn.Sequential(
            nn.Conv2d(LATENT_CHANNELS, 64, 3, padding=1),
            nn.SiLU(),
            nn.Conv2d(64, 64, 3, padding=1),
            nn.SiLU(),
            nn.Conv2d(64, 4, 3, padding=1),
            nn.PixelShuffle(2),
        )
        self.register_buffer("mean", torch.zeros(LATENT_CHANNELS, 1, 1))
        self.register_buffer("std", torch.ones(LATENT_CHANNELS, 1, 1))

    def posterior(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log variance, (B, 2, S/2, S/2) each, before they are standardised."""
        mean, log_variance = self.encoder(images).chunk(2, dim=1)
        return mean, log_variance

    def encode(self, images: Tensor) -> Tensor:
        """Standardised latents."""
        return (self.posterior(images)[0] - self.mean) / self.std

    def forward(self, latents: Tensor) -> Tensor:
        images: Tensor = self.decoder(latents * self.std + self.mean)
        return images


def open_autoencoder(path: str | Path) -> GlyphsAutoencoder:
    """Return the network with the weights of a file of `train.py`."""
    network = GlyphsAutoencoder()
    network.load_state_dict(load_file(path))
    return network.eval().requires_grad_(False)
