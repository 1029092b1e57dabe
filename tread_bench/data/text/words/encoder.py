"""Captions as sequences of fixed random vectors, one for each word, drawn by the hash of the word.

Integers, roots and quotients have the same bits everywhere; the sinusoids, which need not, are rounded to 2^-20. So
features are the same on every machine. A word's vector and the sinusoid have the length sqrt(width): their values are
about as large as those of a trained encoder.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tread_bench.core.numbers import draws
from tread_bench.data.text.words.family import WordsOptions

_WORD = re.compile(r"\w+|[^\w\s]")  # a run of letters and digits, or one other character
_HIGHEST_PERIOD = 10_000
_STEPS = 2**20


class Words:
    """The encoder `words`; computed by NumPy, whatever the device."""

    def __init__(self, options: WordsOptions) -> None:
        self.options = options

    def to(self, device: torch.device | str) -> Self:
        """Return the same encoder."""
        return self

    def encode(self, captions: Sequence[str]) -> Tensor:
        """Captions -> (B, M, E) float32; behind the last word there are zeros."""
        found = np.zeros((len(captions), self.options.tokens, self.options.width), dtype=np.float32)
        for place, caption in enumerate(captions):
            words = words_of(caption)[: self.options.tokens]
            for token, word in enumerate(words):
                found[place, token] = word_vector(word, self.options.width) + self._places[token]
        return torch.from_numpy(found)

    def lengths(self, captions: Sequence[str]) -> list[int]:
        """Return how many tokens each caption has; those beyond M are cut off."""
        return [len(words_of(caption)) for caption in captions]

    @cached_property
    def _places(self) -> NDArray[np.float64]:
        """(M, E) sinusoids of a token's place, of length sqrt(E)."""
        half = -(-self.options.width // 2)
        periods = _HIGHEST_PERIOD ** (np.arange(half) / half)
        angles = np.arange(self.options.tokens)[:, None] / periods
        waves = np.sqrt(2) * np.concatenate([np.sin(angles), np.cos(angles)], axis=1)[:, : self.options.width]
        return np.round(waves * _STEPS) / _STEPS


def words_of(caption: str) -> list[str]:
    """Return the words of a caption, and its other visible characters, in lower case."""
    return _WORD.findall(unicodedata.normalize("NFC", caption).casefold())


@lru_cache(maxsize=4096)
def word_vector(word: str, width: int) -> NDArray[np.float64]:
    """(E,) of length sqrt(E), a function of the word alone."""
    drawn = draws.words(0, f"word {word}", 0, 1, width)[0]
    whole = (drawn >> 16).astype(np.int64) - 2**15  # sums of their squares are exact
    return whole * np.sqrt(width / int((whole**2).sum()))
