"""The samples that a training step takes, and their random numbers as tensors."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import torch
from torch import Tensor

from tread_bench.core.numbers import draws

_LOW = 2**32 - 1


@dataclass(frozen=True, slots=True)
class Samples:
    """Samples `first` ... of a seed's endless sequence; their random numbers depend on the seed, a stream's name and
    each sample's number alone.

    They are drawn by the host (`device` None), or from the same words by the device that computes: normal numbers then
    differ by up to 1e-4.
    """

    seed: int
    first: int
    count: int
    device: torch.device | None = field(default=None, kw_only=True)

    def uniform(self, stream: str, *shape: int) -> Tensor:
        """Draw (count, *shape) uniform numbers in [0, 1), multiples of 2^-24."""
        return ((self._words(stream, math.prod(shape)) >> 8).float() * 2**-24).view(self.count, *shape)

    def normal(self, stream: str, *shape: int) -> Tensor:
        """Draw (count, *shape) standard normal numbers (Box and Muller 1958); on a device in float32."""
        if self.device is None:
            return torch.from_numpy(draws.normal(self.seed, stream, self.first, self.count, shape))
        size = math.prod(shape)
        first, second = ((self._words(stream, 2 * -(-size // 2)).float() + 0.5) * 2**-32).chunk(2, dim=1)
        radius, angle = (-2 * first.log()).sqrt(), 2 * math.pi * second
        return torch.cat([radius * angle.cos(), radius * angle.sin()], dim=1)[:, :size].reshape(self.count, *shape)

    def integers(self, stream: str, high: int) -> Tensor:
        """Draw (count,) integers in [0, high) by multiply-shift, whose bias is below high / 2^32."""
        return self._words(stream, 1)[:, 0] * high >> 32

    def _words(self, stream: str, per_row: int) -> Tensor:
        """Those of `draws.words`, (count, per_row), in int64."""
        if self.device is not None and self.device.type == "cuda" and (kernel := cuda_kernel()) is not None:
            counts = -(-per_row // draws.WORDS_PER_COUNT)
            raw = kernel(draws.key_of(self.seed, stream), self.first * counts, self.count * counts, self.device)
            return torch.stack([raw & _LOW, raw >> 32 & _LOW], dim=2).view(self.count, -1)[:, :per_row]
        words = draws.words(self.seed, stream, self.first, self.count, per_row)
        return torch.from_numpy(words.astype(np.int64)).to(self.device or "cpu", non_blocking=True)


@cache
def cuda_kernel() -> Callable[[int, int, int, torch.device], Tensor] | None:
    """Return what draws words on CUDA; None where Triton is not installed, or has no C compiler: the host does."""
    try:
        from tread_bench.model.ops.philox import raw_words

        raw_words(0, 0, 1, torch.device("cuda"))
    except Exception:  # which one depends on what is missing
        return None
    return raw_words
