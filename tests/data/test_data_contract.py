"""Every announced data source keeps the rules of docs/extending/data.md, whose tests find each broken one."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from tests.data.checked import failing_of_data
from tests.data.image_sets import pictures, write_dataset, write_folder
from tests.data.test_parquet import png, write
from tread_bench.core.describe.data_sources import data_sources
from tread_bench.data.digits.source import read_digits
from tread_bench.data.images import encoded
from tread_bench.data.latents.source import open_latents
from tread_bench.data.source import DataSource, ImageSet

DIGITS, LATENTS = data_sources.find("digits"), data_sources.find("latents")


def write_latents(path, count, seed):
    generator = np.random.default_rng(seed)
    latents = generator.normal(size=(count, 4, 4, 4)).astype(np.float32)
    save_file({"latents": latents, "labels": generator.integers(0, 3, count)}, path)
    return str(path)


def write_table(path, count, seed):
    return write(path, [png(image) for image in pictures(count, seed)], [number % 3 for number in range(count)])


WRITERS = {
    "latents": write_latents,
    "parquet": write_table,
    "image_folder": write_folder,
    "image_folder, on demand": write_folder,
    "hf_dataset": write_dataset,
}


def options_of(name, folder, seed):
    """Two training files or folders and a held-out one, where the source reads files."""
    if name not in WRITERS:
        return {"count": 100 + 10 * seed, "image_size": 4} if name == "random_latents" else {}
    counts = {"first": 40, "second": 30, "held_out": 9}
    folder.mkdir(exist_ok=True)
    paths = {
        part: WRITERS[name](folder / f"{part}{seed}", count, 10 * seed + place)
        for place, (part, count) in enumerate(counts.items())
    }
    files = {"train": [paths["first"], paths["second"]], "held_out": [paths["held_out"]]}
    return {**files, "image_size": 4, "num_classes": 3, **({"scale": 1} if name == "latents" else {})}


@pytest.mark.parametrize("name", [*data_sources(), "image_folder, on demand"])
def test_every_announced_data_source_keeps_the_contract(name, tmp_path, monkeypatch):
    if name.endswith("on demand"):
        monkeypatch.setattr(encoded, "MOST_BYTES", 0)
    options, changed = (options_of(name, tmp_path, seed) for seed in (0, 1))
    assert failing_of_data(data_sources.find(name.partition(",")[0]), tmp_path, options, changed or None) == set()


class Changed:
    """A part of a source, which a function changes as it is read."""

    def __init__(self, part, images=lambda part, index: part.images(index), more=0):
        self.part, self.read, self.more = part, images, more
        self.shape, self.sha256 = part.shape, part.sha256

    def __len__(self):
        return len(self.part)

    def images(self, index):
        return self.read(self.part, index)

    def labels(self, index):
        return self.part.labels(index) + self.more


def digits_as(options, *changes):
    source = read_digits(options)
    return DataSource(Changed(source.train, *changes), Changed(source.held_out, *changes), 10, source.train)


def in_float64(options):
    return digits_as(options, lambda part, index: part.images(index).double())


def counts_from_one(options):
    return digits_as(options, lambda part, index: part.images(index), 1)


def sorts_batches(options):
    return digits_as(options, lambda part, index: part.images(np.sort(index)))


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


def shares_one_sample(options):
    source = read_digits(options)
    train, held_out = source.train, source.held_out
    pixels, classes = np.r_[train.pixels[-1:], held_out.pixels], np.r_[train.classes[-1:], held_out.classes]
    return replace(source, held_out=ImageSet(pixels, classes))


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


def fingerprints_names(options):
    source = open_latents(options)
    train, held_out = Changed(source.train), Changed(source.held_out)
    for part, paths in ((train, options.train), (held_out, options.held_out)):
        part.sha256 = hashlib.sha256(repr(paths).encode()).hexdigest()
    return replace(source, train=train, held_out=held_out)


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
    "counts": {"counts"},
    "files": {"files"},
}
DESCRIBED = {"counts": {"counts": lambda options: (1439, 358)}, "files": {"check_all": f"{__name__}:objects"}}


@pytest.mark.parametrize("name", BROKEN)
def test_each_check_finds_what_it_is_there_for(name, tmp_path):
    wrong = DESCRIBED.get(name, {"builder": f"{__name__}:{name}"})
    assert failing_of_data(replace(DIGITS, **wrong), tmp_path, {}) == BROKEN[name]


def test_the_check_of_fingerprints_finds_one_of_names_and_needs_other_content(tmp_path):
    options, changed = (options_of("latents", tmp_path / "files", seed) for seed in (0, 1))
    of_names = replace(LATENTS, builder=f"{__name__}:fingerprints_names")
    assert failing_of_data(of_names, tmp_path / "files", options, changed) == {"fingerprint"}
    assert failing_of_data(LATENTS, tmp_path / "files", options) == {"fingerprint"}
