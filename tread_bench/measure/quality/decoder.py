"""From generated samples to pixels: directly, or through the decoder of the autoencoder."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from typing import Self

import torch
from torch import Tensor
from torch.export.passes import move_to_device_pass

from tread_bench.core.describe.data_sources import DataOptions, Decoding
from tread_bench.core.describe.metrics import Rounding
from tread_bench.core.errors import UserError
from tread_bench.core.stored.foreign import WEIGHTS_BYTES, read_file
from tread_bench.data.check import message_of
from tread_bench.data.encode.vae import CHUNK, Vae
from tread_bench.data.precision import full_float32
from tread_bench.data.pretrained import in_chunks
from tread_bench.data.scaling import Scaling
from tread_bench.data.source import to_uint8
from tread_bench.measure.quality.export_file import load_program

BATCH = 16  # latents that a decoder takes at a time, but for those of diffusers


class Decoder:
    """Scaled latents (B, C, H, W) to images (B, C', H', W') in [-1, 1], in float32 on the latents' device.

    `sha256` is the hash of its files, `chunk` how many latents it takes at a time, and `pixels` the range that its
    images are brought to [-1, 1] from.

    Raises:
        UserError: the file is not such a program, or the folder is not such an autoencoder.
    """

    def __init__(self, data: DataOptions) -> None:
        decoding = data.family.decoding(data)
        assert decoding is not None
        self.decoding = decoding
        latent = (data.channels, data.image_size, data.image_size)
        self.scaling = Scaling(decoding.scale, decoding.shift, latent)
        self.network: Vae | _Program
        if os.path.isdir(decoding.path):
            self.network, self.chunk, self.pixels = _open_vae(decoding, latent), CHUNK, decoding.pixels
        else:
            self.network, self.chunk, self.pixels = _Program(decoding, latent), BATCH, (-1.0, 1.0)
        self.sha256 = self.network.sha256

    @torch.no_grad()
    def __call__(self, latents: Tensor) -> Tensor:
        with full_float32(latents.device):
            images = self.network.to(latents.device).decode(self.scaling.unscaled(latents.float()))
        low, high = self.pixels
        return images if (low, high) == (-1, 1) else (images - low) * (2 / (high - low)) - 1


def _open_vae(decoding: Decoding, latent: tuple[int, int, int]) -> Vae:
    """An autoencoder of diffusers in a folder."""
    vae = Vae(decoding.path)
    images = (3, decoding.image_size, decoding.image_size)
    if (found := vae.decoded_shape(latent)) != images:
        gives = f"maps latents {latent} to images {found}" if found else f"does not take latents {latent}"
        raise UserError(
            f"{decoding.path}: {gives}, and data.decoder must map {latent} to {images}: set data.channels, "
            "data.image_size or data.decoded_size, or name the autoencoder that encoded these latents"
        )
    return vae


class _Program:
    """A torch.export program in a file. It always decodes as many latents, so that no image depends on their number."""

    def __init__(self, decoding: Decoding, latent: tuple[int, int, int]) -> None:
        path = decoding.path
        try:
            content = read_file(path, WEIGHTS_BYTES)
        except OSError as error:
            raise UserError(f"{path}: cannot read data.decoder ({error.strerror})") from None
        self.sha256 = hashlib.sha256(content).hexdigest()
        self.program = load_program(path, content)
        _check_shapes(self.program, decoding, latent)
        self._modules: dict[torch.device, torch.nn.Module] = {}

    def decode(self, latents: Tensor) -> Tensor:
        """Unscaled latents (B, C, H, W) -> images (B, 3, S, S) in [-1, 1]."""
        device = latents.device
        if device not in self._modules:
            self._modules[device] = move_to_device_pass(self.program, str(device)).module()
        return in_chunks(self._modules[device], latents, BATCH)

    def to(self, device: torch.device) -> Self:
        """Return itself: it is on every device that its latents come from."""
        return self


def open_decoder(data: DataOptions) -> Decoder | None:
    """None where samples are images themselves. Raises UserError."""
    return Decoder(data) if data.family.decoding(data) else None


def decoder_problems(data: DataOptions) -> Iterator[str]:
    """A message where the decoder of these data cannot be used."""
    yield from message_of(open_decoder, data)


def to_pixels(samples: Tensor, decoder: Decoder | None, rounding: Rounding = "round") -> Tensor:
    """Generated samples (B, C, H, W) as images, uint8, on the CPU; `rounding` as in `to_uint8`.

    Raises:
        FloatingPointError: a sample or its decoded image is not finite.
    """
    if decoder is None:
        return to_uint8(samples.cpu(), rounding)
    if not torch.isfinite(samples).all():
        raise FloatingPointError("latents contain NaN or infinite values: the model diverged")
    return to_uint8(decoder(samples).cpu(), rounding)


def _check_shapes(program: torch.export.ExportedProgram, decoding: Decoding, latent: tuple[int, int, int]) -> None:
    values = {node.name: node.meta["val"] for node in program.graph.nodes if "val" in node.meta}
    takes = " and ".join(_type_and_shape(values.get(str(name))) for name in program.graph_signature.user_inputs)
    gives = " and ".join(_type_and_shape(values.get(str(name))) for name in program.graph_signature.user_outputs)
    latents = f"float32 {(BATCH, *latent)}"
    images = f"float32 {(BATCH, 3, decoding.image_size, decoding.image_size)}"
    if (takes, gives) != (latents, images):
        raise UserError(
            f"{decoding.path}: maps {takes} to {gives}, and data.decoder must map {latents} to {images}: export "
            "it with such an input, or set data.channels, data.image_size or data.decoded_size"
        )


def _type_and_shape(tensor: object) -> str:
    """Such as "float32 (16, 4, 32, 32)"."""
    if not isinstance(tensor, Tensor):
        return "no tensor"
    return f"{str(tensor.dtype).removeprefix('torch.')} {tuple(tensor.shape)}"
