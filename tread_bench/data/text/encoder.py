"""What every text encoder does, and how one is opened."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Protocol, Self

import torch
from torch import Tensor

from tread_bench.core.describe.data_sources import TextEncoderOptions
from tread_bench.core.describe.plugins import named
from tread_bench.core.names import canonical_json
from tread_bench.core.stored.data_files import content_sha256
from tread_bench.core.stored.data_paths import named_where_unreadable
from tread_bench.data.check import message_of


class TextEncoder(Protocol):
    """A frozen encoder of captions."""

    def to(self, device: torch.device | str) -> Self:
        """Return the same encoder, on that device."""

    def encode(self, captions: Sequence[str]) -> Tensor:
        """Captions -> (B, M, E) float32. A caption's features do not depend on those beside it."""

    def lengths(self, captions: Sequence[str]) -> list[int]:
        """Return how many tokens each caption has in full; those beyond M are cut off."""


def open_text_encoder(options: TextEncoderOptions) -> TextEncoder:
    """Open an encoder on the CPU. Raises UserError where its files cannot be used."""
    encoder: TextEncoder = named(options.family.builder)(options)
    return encoder


def encoder_problems(options: TextEncoderOptions) -> list[str]:
    """Return a message where an encoder cannot be opened."""
    return list(message_of(open_text_encoder, options))


def encoder_sha256(options: TextEncoderOptions) -> str:
    """Hash of all that features depend on: settings, contents of files, a third party's version. Opens no encoder.

    Raises:
        UserError: a file cannot be read.
    """
    files = list(options.family.files(options))
    settings = options.model_dump(mode="json", exclude={key for key, _ in files})
    contents = []
    for key, path in files:
        with named_where_unreadable(path):
            contents.append([key, content_sha256(path)])
    code = {} if options.family.is_own else options.family.source
    about = canonical_json({"settings": settings, "files": contents, "code": code})
    return hashlib.sha256(about.encode()).hexdigest()
