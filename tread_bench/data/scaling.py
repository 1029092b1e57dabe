"""What a network learns of latents: scale * (latent - shift), and the way back."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.lib.format import MAGIC_PREFIX
from numpy.typing import NDArray
from torch import Tensor

from tread_bench.core.describe.data_sources import Factor
from tread_bench.core.errors import UserError
from tread_bench.core.stored.data_paths import named_where_unreadable
from tread_bench.core.stored.foreign import read_file
from tread_bench.data.archives import load_tensors
from tread_bench.data.latents.arrays import npy_array

_MOST_BYTES = 2**26  # of a file
_NUMBERS = ("float32", "float64", "float16", "int64", "int32")


class Scaling:
    """Scale and shift of latents, as one number, per channel or per position.

    Args:
        scale: a factor, never 0.
        shift: subtracted before scaling; None: 0.
        shape: (C, H, W) of a latent.

    Raises:
        UserError: not as many numbers as channels, an array that does not fit the shape, a scale of 0, NaN.
    """

    def __init__(self, scale: Factor, shift: Factor | None, shape: tuple[int, int, int]) -> None:
        self.scale = _factor("scale", scale, shape)
        self.shift = None if shift is None else _factor("shift", shift, shape)
        if (torch.as_tensor(self.scale) == 0).any():
            raise UserError(f"scale {_named(scale)}: contains 0, from which no latent can be recovered")

    def scaled(self, latents: Tensor) -> Tensor:
        """(B, C, H, W) as the encoder gives them -> as a network learns them."""
        if self.shift is not None:
            latents = latents - _on(self.shift, latents)
        return latents * _on(self.scale, latents)

    def unscaled(self, latents: Tensor) -> Tensor:
        """(B, C, H, W) as a network generates them -> as the decoder takes them."""
        latents = latents / _on(self.scale, latents)
        return latents if self.shift is None else latents + _on(self.shift, latents)


def _on(factor: float | Tensor, latents: Tensor) -> float | Tensor:
    return factor.to(latents.device) if isinstance(factor, Tensor) else factor


def _factor(name: str, value: Factor, shape: tuple[int, int, int]) -> float | Tensor:
    """A number, or float32 that broadcasts against (B, C, H, W)."""
    if isinstance(value, int | float):
        return float(value)
    channels = shape[0]
    if isinstance(value, str):
        array = _array(name, value)
        if array.shape not in ((channels, 1, 1), shape):
            raise UserError(f"{name} {value}: an array of shape {array.shape}; save ({channels}, 1, 1) or {shape}")
    else:
        array = np.array(value, dtype=np.float32)[:, None, None]
        if len(array) != channels:
            raise UserError(f"{name}: {len(array)} numbers for latents of {channels} channels; give one for each")
    if not np.isfinite(array).all():
        raise UserError(f"{name} {_named(value)}: contains NaN or infinite values")
    return torch.from_numpy(array.astype(np.float32))


def _array(name: str, path: str) -> NDArray[Any]:
    """The numbers of a .npy file, or of the statistics of latents: the shift is their mean, the scale one divided by
    their standard deviation.

    Source: hustvl/LightningDiT, datasets/img_latent_dataset.py, `latents_stats.pt`, tensors (1, C, 1, 1).
    """
    with named_where_unreadable(path):
        content = read_file(path, _MOST_BYTES)
    if content.startswith(MAGIC_PREFIX):
        return npy_array(content, path, None, _NUMBERS, name)
    try:
        found = load_tensors(content)
    except ValueError:
        raise UserError(f"{name} {path}: neither a .npy array nor a torch.save file of mean and std") from None
    key = "mean" if name == "shift" else "std"
    value = found.get(key)
    if value is None or not value.is_floating_point():
        raise UserError(f"{name} {path}: no tensor {key!r} in it, from which the {name} follows")
    array: NDArray[Any] = value.float().numpy()
    array = array[0] if array.ndim == 4 and len(array) == 1 else array
    if key == "std" and not (array > 0).all():
        raise UserError(f"{name} {path}: std must be positive")
    return array if key == "mean" else 1 / array


def _named(value: Factor) -> str:
    return value if isinstance(value, str) else str(list(value)) if isinstance(value, tuple) else f"{value:g}"
