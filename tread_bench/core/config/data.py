"""Data sources."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tread_bench.core.config.base import Float, Int, Model


class DigitsData(Model):
    """scikit-learn's 1,797 scanned digits, 8x8, one channel, ten classes; the last fifth is held out."""

    name: Literal["digits"] = "digits"

    @property
    def image_size(self) -> int:
        return 8

    @property
    def channels(self) -> int:
        return 1

    @property
    def num_classes(self) -> int:
        return 10


class ParquetData(Model):
    """Images in local Parquet files of Hugging Face's image schema (a struct of `bytes` and `path`, and a label)."""

    name: Literal["parquet"]
    train: tuple[str, ...] = Field(min_length=1, description="Parquet files with the training images")
    held_out: tuple[str, ...] = Field(min_length=1, description="Parquet files with the held-out images")
    image_size: Int = Field(ge=1, description="side of the images in pixels; images of another size are an error")
    channels: Literal[1, 3] = 3
    num_classes: Int = Field(ge=0)
    image_column: str = "image"
    label_column: str = "label"
    horizontal_flip: bool = Field(False, description="mirror half of the training images, drawn by sample index")


class LatentsData(Model):
    """Latents of an autoencoder in local safetensors files; its decoder makes images of samples."""

    name: Literal["latents"]
    train: tuple[str, ...] = Field(
        min_length=1, description="safetensors files with `latents` (N, C, H, W), unscaled, and `labels` (N,)"
    )
    held_out: tuple[str, ...] = Field(min_length=1, description="the same, held out")
    image_size: Int = Field(32, ge=1, description="side in latent pixels")
    channels: Int = Field(4, ge=1)
    num_classes: Int = Field(1000, ge=0)
    scale: Float = Field(0.18215, gt=0, description="a network learns scale * latent; SD-VAE's is 0.18215")
    decoder: str | None = Field(
        None, description="torch.export program of 16 unscaled latents to images in [-1, 1], for FID and pictures"
    )
    images: tuple[str, ...] = Field((), description="Parquet files with the real images that FID is measured against")
    image_column: str = "image"
    decoded_size: Int = Field(256, ge=1, description="side in pixels of the decoder's images and of the real ones")


class RandomLatentsData(Model):
    """Noise in the shape of ImageNet-256's latents, drawn by sample index: for speed and memory, nothing to learn."""

    name: Literal["random_latents"]
    channels: Int = Field(4, ge=1)
    image_size: Int = Field(32, ge=1, description="side in latent pixels")
    num_classes: Int = Field(1000, ge=0)
    count: Int = Field(1280, ge=5, description="samples; the last fifth is held out")


DataChoice = Annotated[DigitsData | ParquetData | LatentsData | RandomLatentsData, Field(discriminator="name")]


def picture_shape(data: DataChoice) -> tuple[int, int]:
    """Channels and side of the images that samples become."""
    if isinstance(data, LatentsData) and data.decoder:
        return 3, data.decoded_size
    return data.channels, data.image_size
