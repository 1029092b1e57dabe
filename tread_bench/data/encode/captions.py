"""The captions of images that are encoded: features, and the captions themselves, as tensors of a shard."""

from __future__ import annotations

from itertools import chain
from typing import Self

import numpy as np
import torch
from torch import Tensor

from tread_bench.data.captions.features import DTYPES, EMPTY, cut_off, encoded, report_cut_off
from tread_bench.data.captions.split import CaptionedImages
from tread_bench.data.encode.job import TextJob
from tread_bench.data.latents.captions import CAPTION_BYTES, CAPTIONS, COUNTS, EMPTY_TEXT, TEXT
from tread_bench.data.source import DataSource, DataSplit
from tread_bench.data.text.encoder import encoder_sha256, open_text_encoder


class TextToStore:
    """Encodes the captions of both splits.

    Raises:
        UserError: the encoder cannot be opened.
    """

    def __init__(self, train: CaptionedImages, held_out: CaptionedImages) -> None:
        self.settings = train.settings
        self._encoder = open_text_encoder(self.settings.encoder)
        self._splits = (train, held_out)

    @classmethod
    def of(cls, source: DataSource) -> Self | None:
        """Return what encodes the captions of a data source; None: it has none."""
        train, held_out = source.train, source.held_out
        if isinstance(train, CaptionedImages) and isinstance(held_out, CaptionedImages):
            return cls(train, held_out)
        return None

    @property
    def job(self) -> TextJob:
        """What the features depend on."""
        encoder = self.settings.encoder
        return TextJob(
            encoder=encoder.name,
            encoder_sha256=encoder_sha256(encoder),
            tokens=encoder.tokens,
            width=encoder.width,
            dtype=self.settings.dtype,
        )

    @property
    def bytes_of_sample(self) -> int:
        """Of the features of a sample's captions, on average."""
        counts = np.concatenate([split.texts.counts for split in self._splits])
        encoder = self.settings.encoder
        return int(counts.mean() * encoder.tokens * encoder.width * DTYPES[self.settings.dtype].itemsize)

    def of_rows(self, split: DataSplit, rows: range, device: str) -> dict[str, Tensor]:
        """Tensors that hold the captions of some samples of a split."""
        assert isinstance(split, CaptionedImages)
        each = split.texts.each[rows.start : rows.stop]
        captions = [caption for several in each for caption in several]
        features = encoded(self._encoder.to(device), self.settings, [EMPTY, *captions])
        contents = [caption.encode("utf-8", "surrogatepass") for caption in captions]
        return {
            TEXT: features[1:].clone(),
            EMPTY_TEXT: features[0].clone(),
            COUNTS: torch.tensor([len(several) for several in each]),
            CAPTIONS: torch.frombuffer(bytearray(b"".join(contents)), dtype=torch.uint8),
            CAPTION_BYTES: torch.tensor([len(content) for content in contents]),
        }

    def report_cut_off(self) -> None:
        """Log how many captions were cut off, if any."""
        of_samples = chain.from_iterable(split.texts.each for split in self._splits)
        captions = set(chain.from_iterable(of_samples))
        report_cut_off(self.settings, cut_off(self._encoder, self.settings, list(captions)), len(captions))
