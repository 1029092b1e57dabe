"""What must hold of every text encoder: save this beside your own, and put its description in place of ENCODER."""

import numpy as np
import torch
from spelling.family import SPELLING as ENCODER

from tread_bench.core.describe.plugins import named

OPTIONS = {}
CAPTIONS = (
    "",
    "a photo of a cat",
    "a photo of a dog",
    "a cat of a photo",
    "Zwei Hunde laufen über eine Straße.",
    "街の上を歩く二匹の犬",
    "كلبان يمشيان",
    "👩‍👩‍👧 at home",
    "a\x00b\x07c\u202ed",
    '<b onclick="alert(1)">bold</b> &amp; {class} %s',
    "\ud800 half of a pair",
    "dog " * 25_000,
)


def options():
    return ENCODER.options.model_validate({"name": ENCODER.name, **OPTIONS})


def encoder():
    return named(ENCODER.builder)(options())


def test_features():
    """Any text has finite float32 features of the shape that the options say."""
    features = encoder().encode(CAPTIONS)
    assert features.shape == (len(CAPTIONS), options().tokens, options().width)
    assert features.dtype == torch.float32 and features.isfinite().all()


def test_content():
    """Captions of other words, or of the same words in another order, have other features; so has the empty one."""
    assert len(torch.unique(encoder().encode(CAPTIONS[:4]), dim=0)) == 4


def test_batches():
    """A caption's features have the same bits alone, beside others and in any order."""
    opened = encoder()
    features = opened.encode(CAPTIONS)
    assert torch.equal(torch.cat([opened.encode([caption]) for caption in CAPTIONS]), features)
    assert torch.equal(opened.encode(CAPTIONS[::-1]).flip(0), features)


def test_lengths():
    """There is a whole number of tokens for each caption, and that of 25,000 words exceeds the tokens."""
    lengths = list(encoder().lengths(CAPTIONS))
    assert len(lengths) == len(CAPTIONS) and all(isinstance(length, int) and length >= 0 for length in lengths)
    assert lengths[-1] > options().tokens


def test_determinism():
    """Computed again, or by an encoder that is opened again, features have the same bits."""
    first = encoder()
    features = first.encode(CAPTIONS)
    for seed, again in enumerate((first, encoder())):
        np.random.seed(seed)
        torch.manual_seed(seed)
        assert torch.equal(again.encode(CAPTIONS), features)
