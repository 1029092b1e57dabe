"""Images with captions, and the captions' features, computed once, in shards of the user's cache.

A later start goes on with the shards that are there. A folder of the cache is named after the encoder and the captions.
A shard appears complete or not at all, has the same bytes whoever writes it, and is mapped into memory.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from tread_bench.core.errors import UserError
from tread_bench.core.names import canonical_json
from tread_bench.core.stored.cache import cache_folder, one_at_a_time
from tread_bench.core.stored.files import OutputError, replacing, temporaries
from tread_bench.data.captions.family import Captions
from tread_bench.data.captions.texts import Texts, captions_sha256
from tread_bench.data.source import DataSource, ImageSet, Pixels
from tread_bench.data.text.encoder import TextEncoder, encoder_sha256, open_text_encoder

log = logging.getLogger(__name__)

EMPTY = ""
_VERSION = 1  # of what is stored
_SHARD_BYTES = 2**26
AT_A_TIME = 64  # captions that are encoded together
DTYPES = {"float32": torch.float32, "float16": torch.float16}


class CaptionFeatures:
    """Features of captions, encoded when they are first needed.

    Args:
        captions: all that are read; each is encoded once, and the empty one in any case.

    Raises:
        UserError: a file of the encoder cannot be read; from its methods, where the encoder cannot be opened.
    """

    def __init__(self, settings: Captions, captions: Iterable[str]) -> None:
        self._settings = settings
        self._captions = list(dict.fromkeys((EMPTY, *captions)))
        self._rows = {caption: row for row, caption in enumerate(self._captions)}
        encoder = settings.encoder
        bytes_of_one = encoder.tokens * encoder.width * DTYPES[settings.dtype].itemsize
        self._each = max(1, _SHARD_BYTES // bytes_of_one)  # captions in a shard
        self.identity = f"{encoder_sha256(encoder)} {settings.dtype}"

    def of(self, captions: Iterable[str]) -> Tensor:
        """Captions -> (B, M, E) float32."""
        places = [divmod(self._rows[caption], self._each) for caption in captions]
        return torch.stack([self.shards[shard][row] for shard, row in places]).float()

    @cached_property
    def folder(self) -> Path:
        """Where they are stored, by all that they depend on."""
        about = {"version": _VERSION, "encoder": self.identity, "captions": captions_sha256(self._captions)}
        return cache_folder("text") / hashlib.sha256(canonical_json(about).encode()).hexdigest()

    @cached_property
    def shards(self) -> list[Tensor]:
        """Features of all captions, (K, M, E) each, mapped into memory; encoded first where they are not stored."""
        parts = [self._captions[first : first + self._each] for first in range(0, len(self._captions), self._each)]
        found: list[Tensor] = []
        encoder: TextEncoder | None = None
        with one_at_a_time(f"text-{self.folder.name}"):
            for number, captions in enumerate(parts):
                path = self.folder / f"features-{number:05d}.safetensors"
                shard = _stored(path)
                if shard is None:
                    encoder = encoder or self._open_encoder()
                    features = encoded(encoder, self._settings, captions)
                    with suppress(OSError, OutputError), replacing(path) as temporary:
                        save_file({"features": features}, temporary)
                    shard = _stored(path)
                    if shard is None:  # what cannot be stored costs time, not results
                        shard = features
                found.append(shard)
            if encoder is not None:
                cut = sum(cut_off(encoder, self._settings, captions) for captions in parts)
                report_cut_off(self._settings, cut, len(self._captions) - 1)
        return found

    def _open_encoder(self) -> TextEncoder:
        """The encoder, and a folder for its features, without what a killed writer left half written."""
        with suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            for left in temporaries(self.folder):
                left.unlink(missing_ok=True)
        return open_text_encoder(self._settings.encoder)


def _stored(path: Path) -> Tensor | None:
    """A shard, mapped into memory; None: it is not there, or damaged."""
    with suppress(OSError, SafetensorError), safe_open(path, framework="pt") as file:
        tensor: Tensor = file.get_tensor("features")
        return tensor
    return None


def encoded(encoder: TextEncoder, settings: Captions, captions: Sequence[str]) -> Tensor:
    """Captions -> (K, M, E) in the type in which they are stored, on the CPU.

    Raises:
        UserError: they contain NaN, or values that the type does not hold.
    """
    firsts = range(0, len(captions), AT_A_TIME)
    parts = [encoder.encode(captions[first : first + AT_A_TIME]).float().cpu() for first in firsts]
    features = torch.cat(parts).to(DTYPES[settings.dtype])
    if not torch.isfinite(features).all():
        raise UserError(
            f"text encoder {settings.encoder.name}: features contain NaN, or values that {settings.dtype} does not hold"
        )
    return features.contiguous()


def cut_off(encoder: TextEncoder, settings: Captions, captions: Sequence[str]) -> int:
    """Return how many of the captions are longer than the encoder's tokens."""
    return sum(length > settings.encoder.tokens for length in encoder.lengths(captions))


def report_cut_off(settings: Captions, count: int, total: int) -> None:
    """Log how many captions were cut off, if any; said where features are computed, so once."""
    if count:
        log.warning(
            "%s of %s captions are longer than the %s tokens of text encoder %s; the rest of them is cut off",
            *(f"{count:,}", f"{total:,}", settings.encoder.tokens, settings.encoder.name),
        )


class CaptionedImages(Pixels):
    """Images of one split with captions.

    Args:
        texts: the captions of the images, in their order.
        features: of these captions, and perhaps of others.
    """

    def __init__(self, settings: Captions, pixels: Pixels, texts: Texts, features: CaptionFeatures) -> None:
        self.settings = settings
        self.pixels = pixels
        self.texts = texts
        self.classes = np.zeros(len(texts), dtype=np.int64)
        self._features = features

    @property
    def shape(self) -> tuple[int, ...]:
        """(C, H, W)."""
        return self.pixels.shape

    @property
    def is_in_memory(self) -> bool:
        """Whether the images are."""
        return isinstance(self.pixels, ImageSet)

    def uint8(self, index: NDArray[np.int64]) -> Tensor:
        """(B, C, H, W) uint8, as the feature networks take them."""
        return self.pixels.uint8(index)

    @property
    def empty_text(self) -> Tensor:
        """(M, E) float32, of the empty caption."""
        return self._features.of([EMPTY])[0]

    def text(self, index: NDArray[np.int64], seed: int, first: int) -> Tensor:
        """(B, M, E) float32, a caption of each of samples `first` ... of the seed's training."""
        return self._features.of(self.captions(index, seed, first))

    def captions(self, index: NDArray[np.int64], seed: int, first: int) -> list[str]:
        """Return the captions that `text` draws."""
        return self.texts.drawn(index, seed, first)

    @cached_property
    def sha256(self) -> str:
        """Hash of the images, their captions and the encoder."""
        found = f"{self.pixels.sha256} {self.texts.sha256} {self._features.identity}"
        return hashlib.sha256(found.encode()).hexdigest()


def with_captions(settings: Captions | None, source: DataSource, texts: Sequence[Texts | None]) -> DataSource:
    """Return the source with the captions of its training and held-out images, if they have some."""
    train, held_out = texts
    if settings is None or train is None or held_out is None:
        return source
    assert isinstance(source.train, Pixels) and isinstance(source.held_out, Pixels)
    features = CaptionFeatures(settings, chain.from_iterable(chain(train.each, held_out.each)))
    return DataSource(
        CaptionedImages(settings, source.train, train, features),
        CaptionedImages(settings, source.held_out, held_out, features),
        source.num_classes,
    )
