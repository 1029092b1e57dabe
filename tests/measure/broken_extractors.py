"""Feature networks that break one rule each, as builders of the classifier of digits."""

from __future__ import annotations

import torch
from torch import nn

from tread_bench.measure.quality.features import Extractor
from tread_bench.measure.quality.networks.classifier.network import open_digits_classifier


class Wrapped(nn.Module):
    """The network, with something done to its features and logits."""

    def __init__(self, network, change):
        super().__init__()
        self.network = network
        self.change = change

    def forward(self, pixels):
        return self.change(*self.network(pixels))


def with_change(change):
    def build(options, shape):
        found = open_digits_classifier(options, shape)
        return Extractor(found.name, Wrapped(found.network, change), found.sha256, found.dims)

    return build


of_one_size = open_digits_classifier
cropped = with_change(lambda features, logits: (features[:, 1:], logits))
constant = with_change(lambda features, logits: (torch.ones_like(features), logits))
standardises_batches = with_change(lambda features, logits: (features - features.mean(), logits))
draws = with_change(lambda features, logits: (features + 1e-6 * torch.rand_like(features), logits))


class WithSpatial(nn.Module):
    """The network, with something as spatial features."""

    def __init__(self, network, spatial):
        super().__init__()
        self.network = network
        self.spatial = spatial

    def forward(self, pixels, spatial=False):
        features, logits = self.network(pixels)
        return (features, logits, self.spatial(features)) if spatial else (features, logits)


def with_spatial(spatial, dims=64):
    def build(options, shape):
        found = open_digits_classifier(options, shape)
        return Extractor(found.name, WithSpatial(found.network, spatial), found.sha256, found.dims, dims)

    return build


right_spatial = with_spatial(lambda features: features.flip(1))


def named_in_words(options, shape):
    found = open_digits_classifier(options, shape)
    found.sha256 = "digits"
    return found
