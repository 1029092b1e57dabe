"""Latents in safetensors files, without torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from tread_bench.core.config.base import Float, Int
from tread_bench.core.data_sources import DataFamily, DataOptions, Decoding, Place, decoder_files


class LatentsData(DataOptions):
    """Latents of an autoencoder in local safetensors files; its decoder makes images of samples."""

    name: Literal["latents"] = "latents"
    train: tuple[str, ...] = Field(
        min_length=1, description="safetensors files with `latents` (N, C, H, W), unscaled, and `labels` (N,)"
    )
    held_out: tuple[str, ...] = Field(min_length=1, description="the same, held out")
    image_size: Int = Field(32, ge=1, description="side in latent pixels")
    channels: Int = Field(4, ge=1)
    num_classes: Int = Field(1000, ge=0)
    scale: Float = Field(0.18215, gt=0, description="a network learns scale * latent; SD-VAE's is 0.18215")
    decoder: str | None = Field(
        None,
        description="torch.export program of 16 unscaled latents to images in [-1, 1], or a folder with a VAE of "
        "diffusers, for FID and pictures",
    )
    images: tuple[str, ...] = Field((), description="Parquet files with the real images that FID is measured against")
    image_column: str = "image"
    decoded_size: Int = Field(256, ge=1, description="side in pixels of the decoder's images and of the real ones")


def _files(options: LatentsData, generates: bool) -> Iterator[tuple[Place, str]]:
    yield from ((("train", i), file) for i, file in enumerate(options.train))
    yield from ((("held_out", i), file) for i, file in enumerate(options.held_out))
    if generates:
        yield from ((("images", i), file) for i, file in enumerate(options.images))
        if options.decoder is not None:
            yield from ((("decoder",), file) for file in decoder_files(options.decoder))


def _not_comparable(options: LatentsData) -> str:
    missing = " and ".join(f"data.{key}" for key in ("decoder", "images") if not getattr(options, key))
    if not missing:
        return ""
    return (
        f"data latents without {missing}: samples are judged as decoded images, against real ones; give both "
        "decoder and images, or set metrics.generate: false"
    )


def _decoding(options: LatentsData) -> Decoding | None:
    return Decoding(options.decoder, options.scale, options.decoded_size) if options.decoder else None


LATENTS = DataFamily(
    name="latents",
    options=LatentsData,
    builder="tread_bench.data.latents.source:open_latents",
    files=_files,
    not_comparable=_not_comparable,
    extractor=None,
    check_files="tread_bench.data.latents.source:file_problems",
    decoding=_decoding,
    has_published_fids=True,
)
