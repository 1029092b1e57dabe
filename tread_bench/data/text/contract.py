"""The contract of text encoders, as checks for their authors to run.

from tread_bench.contract import check_text_encoder

def test_the_contract_holds():
    assert check_text_encoder(CLIP, {"weights": "clip-vit-large-patch14"}) == []
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tread_bench.core.describe.plugins import by_name, named
from tread_bench.core.describe.text_encoders import TextEncoderFamily, TextEncoderOptions, find_text_encoder
from tread_bench.core.describe.violations import Violation, run_checks
from tread_bench.data.text.encoder import TextEncoder

# Those of people, then what files of unknown origin hold: scripts, control characters, mark-up, half a pair, length.
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


@dataclass(frozen=True)
class TextEncoderSubject:
    """A text encoder with its settings."""

    family: TextEncoderFamily
    options: TextEncoderOptions

    def opened(self) -> TextEncoder:
        encoder: TextEncoder = named(self.family.builder)(self.options)
        return encoder

    @cached_property
    def encoder(self) -> TextEncoder:
        return self.opened()

    @cached_property
    def features(self) -> Tensor:
        return self.encoder.encode(CAPTIONS)


def check_features(subject: TextEncoderSubject) -> Iterator[str]:
    """Any text has finite float32 features (B, M, E), as many as the options say; otherwise no other check is run."""
    expected = (len(CAPTIONS), subject.options.tokens, subject.options.width)
    features = subject.features
    if not isinstance(features, Tensor) or tuple(features.shape) != expected or features.dtype != torch.float32:
        yield f"expected float32 {expected}; saw {_seen(features)}"
        return
    is_finite = torch.isfinite(features).flatten(1).all(1)
    if not is_finite.all():
        yield f"the features of {CAPTIONS[int(is_finite.int().argmin())]!r} are NaN or infinite"


def check_content(subject: TextEncoderSubject) -> Iterator[str]:
    """Captions of other words, or of the same ones in another order, have other features; so has the empty one."""
    if len(torch.unique(subject.features[:4], dim=0)) < 4:
        yield f"two of {', '.join(map(repr, CAPTIONS[:4]))} have the same features"


def check_batches(subject: TextEncoderSubject) -> Iterator[str]:
    """A caption's features have the same bits whatever captions are beside it, and in any order."""
    one_by_one = torch.cat([subject.encoder.encode([caption]) for caption in CAPTIONS])
    backwards = subject.encoder.encode(CAPTIONS[::-1]).flip(0)
    for how, found in (("one by one", one_by_one), ("in another order", backwards)):
        if not torch.equal(found, subject.features):
            furthest = float((found - subject.features).abs().max())
            yield f"features of captions {how} differ from those together by up to {furthest:g}"


def check_lengths(subject: TextEncoderSubject) -> Iterator[str]:
    """Lengths are whole numbers, one for each caption, and those of 100,000 characters exceed the tokens."""
    lengths = list(subject.encoder.lengths(CAPTIONS))
    if len(lengths) != len(CAPTIONS) or not all(isinstance(length, int) and length >= 0 for length in lengths):
        yield f"expected {len(CAPTIONS)} numbers of tokens; saw {lengths}"
    elif lengths[-1] <= subject.options.tokens:
        yield f"expected more than {subject.options.tokens} tokens of 25,000 words; saw {lengths[-1]}: it is cut off"


def check_determinism(subject: TextEncoderSubject) -> Iterator[str]:
    """Features are the same bit for bit if computed again, also by a second instance, whatever was drawn before."""
    for seed, encoder in enumerate((subject.encoder, subject.opened())):
        torch.manual_seed(seed)
        np.random.seed(seed)
        if not torch.equal(encoder.encode(CAPTIONS), subject.features):
            yield "features differ when they are computed again: it draws, or keeps something of what it has read"


def _seen(found: object) -> str:
    return f"{found.dtype} {tuple(found.shape)}" if isinstance(found, Tensor) else type(found).__name__


TEXT_ENCODER_CHECKS: tuple[Callable[[TextEncoderSubject], Iterator[str]], ...] = (
    check_features,
    check_content,
    check_batches,
    check_lengths,
    check_determinism,
)


def check_text_encoder(encoder: TextEncoderFamily | str, options: Mapping[str, Any] | None = None) -> list[Violation]:
    """Return the violations of the contract by a text encoder, in the order of `TEXT_ENCODER_CHECKS`; empty if there
    are none.

    Args:
        encoder: what is announced in the group `tread_bench.text_encoders`, or its name; it must be installed.
        options: as a suite writes them, with local files.

    Raises:
        ValueError: the options are not valid.
    """
    encoder = by_name(encoder, find_text_encoder)
    chosen = encoder.options.model_validate({"name": encoder.name, **(options or {})})
    numpy_state = np.random.get_state()
    try:
        with torch.random.fork_rng(devices=[]):
            return run_checks(TEXT_ENCODER_CHECKS, TextEncoderSubject(encoder, chosen), first_decides=True)
    finally:
        np.random.set_state(numpy_state)
