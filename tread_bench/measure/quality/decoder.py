"""From generated samples to pixels: directly, or through the decoder of the autoencoder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor

from tread_bench.core.describe.data_sources import DataOptions
from tread_bench.core.errors import UserError
from tread_bench.data.check import message_of
from tread_bench.data.encode.vae import Vae
from tread_bench.data.scaling import Scaling
from tread_bench.data.source import to_uint8


class Decoder:
    """Scaled latents (B, C, H, W) to images (B, 3, S, S) in [-1, 1], in float32 on the latents' device.

    `sha256` is the hash of its files.

    Raises:
        UserError: the folder holds no autoencoder of diffusers, or one of other latents or images.
    """

    def __init__(self, data: DataOptions) -> None:
        decoding = data.family.decoding(data)
        assert decoding is not None
        self.decoding = decoding
        latent = (data.channels, data.image_size, data.image_size)
        self.scaling = Scaling(decoding.scale, decoding.shift, latent)
        self.network: Vae | _Enlargement
        if decoding.path is None:
            self.network = _Enlargement(decoding.image_size)
        else:
            self.network = Vae(decoding.path)
            images = (3, decoding.image_size, decoding.image_size)
            if (found := self.network.decoded_shape(latent)) != images:
                gives = f"maps latents {latent} to images {found}" if found else f"does not take latents {latent}"
                raise UserError(
                    f"{decoding.path}: {gives}, and data.decoder must map {latent} to {images}: set data.channels, "
                    "data.image_size or data.decoded_size, or name the autoencoder that encoded these latents"
                )
        self.sha256 = self.network.sha256

    @torch.no_grad()
    def __call__(self, latents: Tensor) -> Tensor:
        images = self.network.to(latents.device).decode(self.scaling.unscaled(latents.float()))
        low, high = self.decoding.pixels
        return images if (low, high) == (-1, 1) else (images - low) * (2 / (high - low)) - 1


class _Enlargement:
    """A latent's first channel in the size of the images: in a smoke run in place of an autoencoder that is missing."""

    sha256 = "none"

    def __init__(self, side: int) -> None:
        self.side = side

    def to(self, device: torch.device) -> Self:
        return self

    def decode(self, latents: Tensor) -> Tensor:
        return F.interpolate(latents[:, :1].tanh(), (self.side, self.side)).expand(-1, 3, -1, -1)


def open_decoder(data: DataOptions) -> Decoder | None:
    """None where samples are images themselves. Raises UserError."""
    return Decoder(data) if data.family.decoding(data) else None


def decoder_problems(data: DataOptions) -> Iterator[str]:
    """A message where the decoder of these data cannot be used."""
    yield from message_of(open_decoder, data)


def to_pixels(samples: Tensor, decoder: Decoder | None) -> Tensor:
    """Generated samples (B, C, H, W) as images, uint8, on the CPU.

    Raises:
        FloatingPointError: a sample or its decoded image is not finite.
    """
    if decoder is None:
        return to_uint8(samples.cpu())
    if not torch.isfinite(samples).all():
        raise FloatingPointError("latents contain NaN or infinite values: the model diverged")
    return to_uint8(decoder(samples).cpu())
