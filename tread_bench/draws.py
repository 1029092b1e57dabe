"""Every random number of a study, as a pure function of (seed, stream, sample index).

A stream is an endless table of uniform 32-bit words with one row per sample; a batch is a slice of its rows. Nothing
is carried from step to step, so there is no generator state to save, and the draws do not depend on the batch size,
the number of workers or the point at which a run was broken off. The generator is Philox (Salmon et al., SC 2011),
counter-based, through NumPy.
"""

from __future__ import annotations

import hashlib
import math

import numpy as np
from numpy.typing import NDArray

_WORDS_PER_COUNT = 8  # one Philox4x64 count gives four 64-bit, that is eight 32-bit, words


def key_of(*parts: object) -> int:
    """A 128-bit key from the parts' texts; different parts give independent streams."""
    return int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=16).digest(), "little")


def words(seed: int, stream: str, first: int, count: int, per_row: int) -> NDArray[np.uint32]:
    """Rows `first` .. `first + count - 1` of a stream: (count, per_row) uniform 32-bit words."""
    counts_per_row = -(-per_row // _WORDS_PER_COUNT)
    generator = np.random.Philox(key=key_of(seed, stream)).advance(first * counts_per_row)
    raw = generator.random_raw(count * counts_per_row * 4)
    return raw.view(np.uint32).reshape(count, counts_per_row * _WORDS_PER_COUNT)[:, :per_row]


def uniform(seed: int, stream: str, first: int, count: int, shape: tuple[int, ...] = ()) -> NDArray[np.float32]:
    """(count, *shape) numbers uniform in [0, 1), multiples of 2^-24 so that float32 holds them exactly."""
    drawn = words(seed, stream, first, count, math.prod(shape))
    return ((drawn >> 8) * np.float32(2**-24)).astype(np.float32).reshape(count, *shape)


def normal(seed: int, stream: str, first: int, count: int, shape: tuple[int, ...] = ()) -> NDArray[np.float32]:
    """(count, *shape) standard normal numbers (Box and Muller 1958, in float64)."""
    size = math.prod(shape)
    pairs = -(-size // 2)
    unit = (words(seed, stream, first, count, 2 * pairs).astype(np.float64) + 0.5) * 2**-32  # in (0, 1)
    radius = np.sqrt(-2 * np.log(unit[:, :pairs]))
    angle = 2 * np.pi * unit[:, pairs:]
    both = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return both[:, :size].astype(np.float32).reshape(count, *shape)


def integers(seed: int, stream: str, first: int, count: int, high: int) -> NDArray[np.int64]:
    """(count,) integers in [0, high), by multiply-shift: the bias is below high / 2^32."""
    drawn = words(seed, stream, first, count, 1)[:, 0].astype(np.uint64)
    return ((drawn * np.uint64(high)) >> np.uint64(32)).astype(np.int64)


def permuted(seed: int, stream: str, first: int, count: int, size: int) -> NDArray[np.int64]:
    """Which of `size` items the samples `first` .. are: every epoch runs through all items in an order of its own."""
    index = np.arange(first, first + count)
    epochs, places = np.divmod(index, size)
    items = np.empty(count, dtype=np.int64)
    for epoch in np.unique(epochs):
        order = np.random.Generator(np.random.Philox(key=key_of(seed, stream, "epoch", int(epoch)))).permutation(size)
        here = epochs == epoch
        items[here] = order[places[here]]
    return items
