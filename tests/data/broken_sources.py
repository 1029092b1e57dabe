"""Data sources that break one rule each, as variants of the digits, or of latents in files."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import partial

import numpy as np
import torch

from tread_bench.data.digits.source import read_digits
from tread_bench.data.latents.source import open_latents
from tread_bench.data.source import DataSource, ImageSet


class Changed:
    """One part of a source, which a subclass reads wrongly."""

    def __init__(self, part):
        self.part = part
        self.shape = part.shape
        self.sha256 = part.sha256

    def __len__(self):
        return len(self.part)

    def images(self, index):
        return self.part.images(index)

    def labels(self, index):
        return self.part.labels(index)


def digits_as(kind, options):
    source = read_digits(options)
    return DataSource(kind(source.train), kind(source.held_out), source.num_classes, source.train)


class Cropped(Changed):
    def images(self, index):
        return super().images(index)[..., :-1]


class Doubled(Changed):
    def images(self, index):
        return 2 * super().images(index)


class InFloat64(Changed):
    def images(self, index):
        return super().images(index).double()


class CountsFromOne(Changed):
    def labels(self, index):
        return super().labels(index) + 1


class Sorted(Changed):
    def images(self, index):
        return super().images(np.sort(index))


class Standardised(Changed):
    def images(self, index):
        images = super().images(index)
        return (images - images.mean()).clamp(-1, 1)


class Captioned(ImageSet):
    """Whose options state no captions."""

    empty_text = torch.zeros(2, 3)

    def text(self, index, seed, first):
        return torch.zeros(len(index), 2, 3)

    def captions(self, index, seed, first):
        return [""] * len(index)


def has_captions_that_are_not_stated(options):
    source = read_digits(options)
    parts = (Captioned(part.pixels, part.classes) for part in (source.train, source.held_out))
    return DataSource(*parts, source.num_classes)


cropped = partial(digits_as, Cropped)
doubled = partial(digits_as, Doubled)
in_float64 = partial(digits_as, InFloat64)
counts_from_one = partial(digits_as, CountsFromOne)
sorts_batches = partial(digits_as, Sorted)
standardises_batches = partial(digits_as, Standardised)


def says_fewer_classes(options):
    return replace(read_digits(options), num_classes=9)


def shares_one_sample(options):
    source = read_digits(options)
    train = source.train
    overlap = ImageSet(
        np.concatenate([train.pixels[-1:], source.held_out.pixels]),
        np.concatenate([train.classes[-1:], source.held_out.classes]),
    )
    return replace(source, held_out=overlap)


def draws_anew(options):
    source = read_digits(options)
    noise = torch.randint(0, 9, source.train.pixels.shape).numpy().astype(np.uint8)
    return replace(source, train=ImageSet(source.train.pixels // 2 + noise, source.train.classes))


def shows_floats(options):
    class Floats:
        def __len__(self):
            return len(source.train)

        def batches(self, size):
            return (images.float() for images in source.train.batches(size))

    source = read_digits(options)
    return replace(source, real_images=Floats())


def latents_with(fingerprint, options):
    source = open_latents(options)
    train, held_out = Changed(source.train), Changed(source.held_out)
    train.sha256, held_out.sha256 = fingerprint(options.train), fingerprint(options.held_out)
    return replace(source, train=train, held_out=held_out)


fingerprints_names = partial(latents_with, lambda paths: hashlib.sha256(repr(paths).encode()).hexdigest())


def fingerprints_numbers_of_files(options):
    numbers = iter("ab")
    return latents_with(lambda paths: f"{len(paths)} {next(numbers)}", options)


def objects(options, generates):
    yield "nothing is good enough"
