"""The captions of one split: several for each sample, one of which is drawn for each step of training."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tread_bench.core.errors import UserError
from tread_bench.core.numbers import draws
from tread_bench.core.problems import shortened


@dataclass(frozen=True)
class Texts:
    """The captions of a split's samples, in their order.

    Args:
        each: one or more captions of each sample.
    """

    each: Sequence[Sequence[str]]

    def __len__(self) -> int:
        return len(self.each)

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """(N,), of each sample's captions."""
        return np.array([len(captions) for captions in self.each], dtype=np.int64)

    def drawn(self, index: NDArray[np.int64], seed: int, first: int) -> list[str]:
        """Return a caption of each of samples `first` ... of the seed's training, which are the items `index`."""
        chosen = drawn_captions(self.counts[index], seed, first)
        return [self.each[item][place] for item, place in zip(index.tolist(), chosen.tolist(), strict=True)]

    def of(self, items: NDArray[np.int64]) -> Texts:
        """Return the captions of some samples."""
        return Texts([self.each[item] for item in items.tolist()])

    @cached_property
    def sha256(self) -> str:
        """Hash of the captions in their order."""
        return captions_sha256(caption for captions in self.each for caption in (str(len(captions)), *captions))


def drawn_captions(counts: NDArray[np.int64], seed: int, first: int) -> NDArray[np.int64]:
    """Return which of its captions each of samples `first` ... of the seed's training has, (B,).

    Args:
        counts: (B,) captions of each.
    """
    return draws.integers(seed, "caption", first, len(counts), counts)


def captions_sha256(captions: Iterable[str]) -> str:
    """Return the hash of texts in their order; halves of surrogate pairs, which JSON can hold, count as they are."""
    digest = hashlib.sha256()
    for caption in captions:
        content = caption.encode("utf-8", "surrogatepass")
        digest.update(b"%d " % len(content) + content)
    return digest.hexdigest()


def captions_at(where: str, value: object) -> list[str]:
    """Return one caption, or each of a list.

    Args:
        where: file and place, for messages.

    Raises:
        UserError: there is none, or one is empty or not text.
    """
    captions: list[str] = []
    each = value if isinstance(value, list) and value else [value]
    for caption in each:
        if not isinstance(caption, str) or not caption.strip():
            rule = "a caption is text that is not empty, or a list of such texts"
            raise UserError(f"{where}: {shortened(caption)} is none; {rule}: correct it, or set data.captions.column")
        captions.append(caption)
    return captions
