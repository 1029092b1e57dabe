"""The captions of one split: several for each sample, one of which is drawn for each step of training."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tread_bench.core.errors import UserError
from tread_bench.core.numbers import draws
from tread_bench.core.problems import shortened

SHOWN = 20  # mistakes in captions of one split


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


@dataclass
class Reading:
    """Captions that are being read, with what is wrong with them.

    Args:
        each: captions of the samples so far.
        problems: a message for each that is missing, empty or not text.
    """

    each: list[list[str]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def add(self, found: Iterable[tuple[str, object]], missing: str) -> None:
        """Add a sample.

        Args:
            found: where a caption is, for messages, and what is there.
            missing: the message where there is nothing.
        """
        values, captions = [*found], []
        for where, value in values:
            if value is None:
                self.problems.append(f"{where}: no caption")
            elif not isinstance(value, str):
                self.problems.append(f"{where}: {shortened(value)} is not text")
            elif not value.strip():
                self.problems.append(f"{where}: an empty caption")
            else:
                captions.append(value)
        if not values:
            self.problems.append(missing)
        self.each.append(captions)

    def texts(self) -> Texts:
        """Return the captions. Raises UserError with all mistakes."""
        if self.problems:
            raise UserError("\n".join(self.reported()))
        return Texts(self.each)

    def reported(self) -> Iterator[str]:
        """Yield the first mistakes and, if there are more, their number."""
        yield from self.problems[:SHOWN]
        if (count := len(self.problems)) > SHOWN:
            where = self.problems[0].partition(":")[0].partition(", ")[0]
            yield f"{where}: {count:,} mistakes in captions; the first {SHOWN} are named"


def values_at(where: str, value: object) -> list[tuple[str, object]]:
    """Return one caption, or each of a list, with where it is; nothing of None or of an empty list."""
    if isinstance(value, list):
        return [(f"{where}, caption {number}", one) for number, one in enumerate(value, 1)]
    return [] if value is None else [(where, value)]
