"""Text encoders that break one rule each, as variants of `words`."""

from __future__ import annotations

import torch

from tread_bench.data.text.words.encoder import Words


class Short(Words):
    def encode(self, captions):
        return super().encode(captions)[:, :-1]


class InFloat64(Words):
    def encode(self, captions):
        return super().encode(captions).double()


class NotANumber(Words):
    def encode(self, captions):
        return super().encode(captions) / 0


class Constant(Words):
    def encode(self, captions):
        return torch.ones_like(super().encode(captions))


class BagOfWords(Words):
    def encode(self, captions):
        found = super().encode(captions) - torch.from_numpy(self._places).float()
        return found.sum(1, keepdim=True).round(decimals=3).expand_as(found)


class StandardisesBatches(Words):
    def encode(self, captions):
        found = super().encode(captions)
        return found - found.mean(0)


class LengthsCutOff(Words):
    def lengths(self, captions):
        return [min(length, self.options.tokens) for length in super().lengths(captions)]


class Draws(Words):
    def __init__(self, options):
        super().__init__(options)
        self._drawn = torch.randn(options.width)

    def encode(self, captions):
        return super().encode(captions) + self._drawn
