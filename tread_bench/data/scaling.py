"""What a network learns of latents: scale * (latent - shift), and the way back."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tread_bench.core.data_sources import Factor
from tread_bench.core.errors import UserError


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
        is_zero = self.scale == 0
        if is_zero.any() if isinstance(is_zero, Tensor) else is_zero:
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
    """The numbers of a .npy file."""
    try:
        array = np.lib.format.open_memmap(path, mode="r")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"{name} {path}: not a readable .npy file ({reason})") from None
    if array.dtype.kind not in "fiu":
        raise UserError(f"{name} {path}: an array of {array.dtype}; save numbers, as float32")
    return np.array(array)


def _named(value: Factor) -> str:
    return value if isinstance(value, str) else str(list(value)) if isinstance(value, tuple) else f"{value:g}"
