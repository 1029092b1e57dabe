"""Every announced data source keeps the rules of docs/extending/data.md, whose tests find each broken one."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from tests.data.checked import failing_of_data
from tests.data.image_sets import write_dataset, write_folder
from tests.data.test_parquet import png, write
from tread_bench.core.describe.data_sources import data_sources, find_data_source
from tread_bench.data.digits.source import read_digits
from tread_bench.data.latents.source import open_latents
from tread_bench.data.source import DataSource, ImageSet

DIGITS, LATENTS = find_data_source("digits"), find_data_source("latents")


def latent_files(folder, seed):
    """Options of latents with a training file and a held-out one."""
    generator = np.random.default_rng(seed)
    options = {"image_size": 4, "num_classes": 3, "scale": 1}
    for part, count in (("train", 70), ("held_out", 9)):
        latents = generator.normal(size=(count, 4, 4, 4)).astype(np.float32)
        path = folder / f"{part}{seed}.safetensors"
        save_file({"latents": latents, "labels": generator.integers(0, 3, count)}, path)
        options[part] = [str(path)]
    return options


def image_files(folder, seed):
    """Options of images with two training files and a held-out one."""
    generator = np.random.default_rng(seed)

    def file(name, count):
        images = [png(generator.integers(0, 256, (4, 4, 3), dtype=np.uint8)) for _ in range(count)]
        return write(folder / f"{name}{seed}.parquet", images, list(generator.integers(0, 3, count)))

    train = [file("first", 40), file("second", 30)]
    return {"train": train, "held_out": [file("held_out", 9)], "image_size": 4, "num_classes": 3}


def options_of(name, folder, seed):
    if name == "latents":
        return latent_files(folder, seed)
    if name == "parquet":
        return image_files(folder, seed)
    if name in ("image_folder", "hf_dataset"):
        write = write_folder if name == "image_folder" else write_dataset
        train, held_out = write(folder / f"train{seed}", 70, seed), write(folder / f"held_out{seed}", 9, 10 + seed)
        return {"train": [train], "held_out": [held_out], "image_size": 4, "num_classes": 3}
    return {"count": 100 + 10 * seed, "image_size": 4} if name == "random_latents" else {}


@pytest.mark.parametrize("name", data_sources())
def test_every_announced_data_source_keeps_the_contract(name, tmp_path):
    options, changed = (options_of(name, tmp_path, seed) for seed in (0, 1))
    assert failing_of_data(data_sources()[name], tmp_path, options, changed or None) == set()


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


class InFloat64(Changed):
    def images(self, index):
        return super().images(index).double()


class CountsFromOne(Changed):
    def labels(self, index):
        return super().labels(index) + 1


class Sorted(Changed):
    def images(self, index):
        return super().images(np.sort(index))


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


in_float64 = partial(digits_as, InFloat64)
counts_from_one = partial(digits_as, CountsFromOne)
sorts_batches = partial(digits_as, Sorted)


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


def objects(options, generates):
    yield "nothing is good enough"


BROKEN = {
    "in_float64": {"shape"},
    "counts_from_one": {"labels"},
    "sorts_batches": {"order"},
    "shares_one_sample": {"split", "counts"},
    "draws_anew": {"again"},
    "has_captions_that_are_not_stated": {"captions"},
    "shows_floats": {"real_images"},
    "fingerprints_names": {"fingerprint"},
}


DESCRIBED_WRONGLY = {
    "miscounts": ({"counts": lambda options: (1439, 358)}, {"counts"}),
    "objects": ({"check_all": f"{__name__}:objects"}, {"files"}),
}


@pytest.mark.parametrize("name", DESCRIBED_WRONGLY)
def test_each_check_of_the_description_finds_what_it_is_there_for(name, tmp_path):
    changes, expected = DESCRIBED_WRONGLY[name]
    assert failing_of_data(replace(DIGITS, **changes), tmp_path, {}) == expected


@pytest.mark.parametrize("name", BROKEN)
def test_each_check_finds_what_it_is_there_for(name, tmp_path):
    builder = f"{__name__}:{name}"
    if name.startswith("fingerprints"):
        options, changed = (latent_files(tmp_path, seed) for seed in (0, 1))
        found = failing_of_data(replace(LATENTS, builder=builder), tmp_path, options, changed)
    else:
        found = failing_of_data(replace(DIGITS, builder=builder), tmp_path, {})
    assert found == BROKEN[name]


def test_a_source_that_reads_files_needs_other_content(tmp_path):
    assert failing_of_data(LATENTS, tmp_path, latent_files(tmp_path, 0)) == {"fingerprint"}
