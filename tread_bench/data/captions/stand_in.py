"""Random captions that stand in for files which are not there, and an encoder that needs none."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from tread_bench.core.stored.data_paths import is_missing
from tread_bench.data.captions.family import Captions
from tread_bench.data.text.words.family import WordsOptions

_WORDS = ("one", "small", "random", "square", "of", "eight", "coloured", "dots")
C = TypeVar("C", bound=Captions)


def random_captions(number: int) -> list[str]:
    """Return two captions of the image of that number."""
    generator = np.random.default_rng(number)
    return [" ".join(_WORDS[place] for place in generator.permutation(len(_WORDS))[:length]) for length in (4, 6)]


def with_encoder_there(captions: C) -> C:
    """Return the settings; with random words of the same shape in place of an encoder whose files are missing."""
    encoder = captions.encoder
    if not any(is_missing(path) for _, path in encoder.family.files(encoder)):
        return captions
    return captions.model_copy(update={"encoder": WordsOptions(tokens=encoder.tokens, width=encoder.width)})
