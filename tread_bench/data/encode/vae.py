"""Autoencoders of diffusers, from local folders: nothing is downloaded, and no file can run code."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from tread_bench.core.describe.data_sources import VAE_FILES, Factor, decoder_files
from tread_bench.core.errors import UserError
from tread_bench.core.stored.data_files import content_sha256
from tread_bench.core.stored.files import read_json
from tread_bench.data.pretrained import full_float32, import_library, in_chunks, load_pretrained

CHUNK = 8  # images or latents at a time
_HAS_POSTERIOR = {"AutoencoderKL": True, "AutoencoderDC": False}  # encodes to the moments of a distribution
_INDEX = f"{VAE_FILES[1]}.index.json"  # of weights in several files, which diffusers would read instead

_WRONG = {"missing": "missing_keys", "unknown": "unexpected_keys", "of another shape": "mismatched_keys"}

Shape = tuple[int, ...]


class Vae:
    """An `AutoencoderKL` or `AutoencoderDC` of diffusers, computed in float32.

    Args:
        folder: with config.json and diffusion_pytorch_model.safetensors, as `save_pretrained` writes it.

    `has_posterior` says whether it encodes to the moments of a distribution, `config` has its settings by name.

    Raises:
        UserError: diffusers is not installed, or the folder does not contain such a model with all its weights.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.kind = _kind(self.folder)
        self.has_posterior = _HAS_POSTERIOR[self.kind]
        diffusers = import_library("diffusers", "vae", self.folder)
        weights = self.folder / VAE_FILES[1]
        if not weights.is_file() or (self.folder / _INDEX).exists():
            raise UserError(
                f"{folder}: weights are read from one file, {weights.name}; load the model with diffusers and write it "
                "again with save_pretrained(FOLDER, safe_serialization=True)"
            )
        options = {"low_cpu_mem_usage": False, "torch_dtype": torch.float32}
        self.network = load_pretrained(diffusers, self.kind, self.folder, _WRONG, **options)
        self.config = dict(self.network.config)
        contents = " ".join(map(content_sha256, decoder_files(str(folder))))
        self.sha256 = hashlib.sha256(contents.encode()).hexdigest()

    def to(self, device: torch.device | str) -> Self:
        """Return the same autoencoder, on that device."""
        self.network.to(device)
        return self

    @property
    def scale(self) -> Factor:
        """What latents are multiplied by for a diffusion model, once `shift` is subtracted."""
        factor, std = float(self.config["scaling_factor"]), self.config.get("latents_std")
        return factor if std is None else tuple(factor / float(one) for one in std)

    @property
    def shift(self) -> Factor | None:
        """What is subtracted from latents for a diffusion model."""
        shift, mean = self.config.get("shift_factor"), self.config.get("latents_mean")
        if mean is not None:
            return tuple(map(float, mean))
        return None if shift is None else float(shift)

    @torch.no_grad()
    def encode(self, images: Tensor) -> Tensor:
        """Images (B, C, S, S) in [-1, 1] -> mean and log variance (B, 2C, H, W), or latents (B, C, H, W)."""
        with full_float32(images.device):
            return in_chunks(lambda part: self._encoded(self.network, part), images, CHUNK)

    @torch.no_grad()
    def decode(self, latents: Tensor) -> Tensor:
        """Unscaled latents (B, C, H, W) -> images (B, C, S, S) in [-1, 1]."""
        with full_float32(latents.device):
            return in_chunks(lambda part: self._decoded(self.network, part), latents, CHUNK)

    def encoded_shape(self, image: Shape) -> Shape | None:
        """Shape of the result of `encode` for an image (C, S, S); None: it does not take such images."""
        return self._shape(self._encoded, image)

    def decoded_shape(self, latent: Shape) -> Shape | None:
        """Shape of the image that `decode` makes of a latent (C, H, W); None: it does not take such latents."""
        return self._shape(self._decoded, latent)

    def _encoded(self, network: Any, images: Tensor) -> Tensor:
        found = network.encode(images)
        return found.latent_dist.parameters if self.has_posterior else found.latent

    def _decoded(self, network: Any, latents: Tensor) -> Tensor:
        return network.decode(latents).sample

    @cached_property
    def _outline(self) -> Any:
        """The network without weights, for shapes."""
        with torch.device("meta"):
            return type(self.network).from_config(self.config).eval()

    @torch.no_grad()
    def _shape(self, compute: Callable[[Any, Tensor], Tensor], shape: Shape) -> Shape | None:
        try:
            return tuple(compute(self._outline, torch.empty(1, *shape, device="meta")).shape[1:])
        except RuntimeError:  # a convolution that takes other channels, or more than one pixel
            return None


def _kind(folder: Path) -> str:
    """The class of the model in a folder, as its configuration states it. Raises UserError."""
    way_out = "give a folder that `save_pretrained` of diffusers wrote (of a pipeline, its subfolder vae)"
    path = folder / VAE_FILES[0]
    if folder.is_file():
        raise UserError(f"{folder}: not a folder; {way_out}")
    config = read_json(path, way_out)
    if config is None:
        raise UserError(f"{path}: no such file; {way_out}")
    if not isinstance(config, dict):
        raise UserError(f"{path}: not a JSON object; {way_out}")
    kind = config.get("_class_name")
    if config.get("quantization_config"):
        raise UserError(f"{path}: quantised weights are not read; save the model in float32 or float16")
    if not isinstance(kind, str) or kind not in _HAS_POSTERIOR:
        raise UserError(f"{path}: _class_name is {kind!r} and must be {' or '.join(_HAS_POSTERIOR)}; {way_out}")
    return kind
