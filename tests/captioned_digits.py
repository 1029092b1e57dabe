"""scikit-learn's digits with two captions each, whose words have fixed random features, and a network for them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

import numpy as np
import torch

from tread_bench.core.describe.data_sources import DataOptions
from tread_bench.core.numbers import draws
from tread_bench.data.digits.family import DIGITS, DigitsData
from tread_bench.data.digits.source import read_digits
from tread_bench.data.source import DataSource, ImageSet

TOKENS, WIDTH = 3, 6
NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
PHRASES = ("a {}", "the digit {}")


class CaptionedDigits(DataOptions):
    """Digits with captions."""

    name: Literal["captioned-digits"] = "captioned-digits"
    image_size: int = 8
    channels: int = 1
    num_classes: int = 0

    @property
    def text_shape(self):
        return TOKENS, WIDTH

    @property
    def family(self):
        return CAPTIONED_DIGITS


CAPTIONED_DIGITS = replace(
    DIGITS, name="captioned-digits", options=CaptionedDigits, builder=f"{__name__}:read_captioned"
)


@cache
def word(text):
    return torch.from_numpy(draws.normal(0, f"word {text!r}", 0, 1, (WIDTH,)))[0]


def features(caption):
    """(TOKENS, WIDTH): a row per word, padded."""
    words = caption.split()
    return torch.stack([word(text) for text in [*words, *[""] * (TOKENS - len(words))]])


@dataclass(frozen=True)
class Captioned(ImageSet):
    """Images of numbers, without labels."""

    numbers: np.ndarray

    @property
    def empty_text(self):
        return features("")

    def captions(self, index, seed, first):
        phrases = draws.integers(seed, "captions of digits", first, len(index), len(PHRASES))
        pairs = zip(phrases, self.numbers[index], strict=True)
        return [PHRASES[phrase].format(NAMES[number]) for phrase, number in pairs]

    def text(self, index, seed, first):
        return torch.stack([features(caption) for caption in self.captions(index, seed, first)])


def read_captioned(options):
    source = read_digits(DigitsData())
    train, held_out = (
        Captioned(part.pixels, np.zeros_like(part.classes), part.classes) for part in (source.train, source.held_out)
    )
    return DataSource(train, held_out, 0)


def captioned_cell(**keys):
    """A cell on these data, as a suite would write it."""
    from tread_bench.core.config.suite import Cell  # which asks for every data source, and maybe for this one

    backbone = {"name": "DiT", "depth": 4, "hidden": 16, "heads": 2, "patch": 2}
    keys = {"backbone": backbone, "training": {"iterations": 12, "batch": 8}, **keys}
    return Cell.model_validate(keys).model_copy(update={"data": CaptionedDigits()})
