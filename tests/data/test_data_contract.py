"""Every announced data source keeps the rules of docs/extending/data.md, whose tests find each broken one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import save_file

from tests.data.checked import failing_of_data
from tests.data.image_sets import write_dataset, write_folder
from tests.data.test_parquet import png, write
from tread_bench.core.describe.data_sources import data_sources, find_data_source

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


BROKEN = {
    "cropped": {"shape"},
    "doubled": {"shape"},
    "in_float64": {"shape"},
    "says_fewer_classes": {"shape"},
    "counts_from_one": {"labels"},
    "sorts_batches": {"order"},
    "standardises_batches": {"order"},
    "shares_one_sample": {"split", "counts"},
    "draws_anew": {"again"},
    "has_captions_that_are_not_stated": {"captions"},
    "shows_floats": {"real_images"},
    "fingerprints_names": {"fingerprint"},
    "fingerprints_numbers_of_files": {"fingerprint"},
}


DESCRIBED_WRONGLY = {
    "miscounts": ({"counts": lambda options: (1439, 358)}, {"counts"}),
    "objects": ({"check_all": "tests.data.broken_sources:objects"}, {"files"}),
}


@pytest.mark.parametrize("name", DESCRIBED_WRONGLY)
def test_each_check_of_the_description_finds_what_it_is_there_for(name, tmp_path):
    changes, expected = DESCRIBED_WRONGLY[name]
    assert failing_of_data(replace(DIGITS, **changes), tmp_path, {}) == expected


@pytest.mark.parametrize("name", BROKEN)
def test_each_check_finds_what_it_is_there_for(name, tmp_path):
    builder = f"tests.data.broken_sources:{name}"
    if name.startswith("fingerprints"):
        options, changed = (latent_files(tmp_path, seed) for seed in (0, 1))
        found = failing_of_data(replace(LATENTS, builder=builder), tmp_path, options, changed)
    else:
        found = failing_of_data(replace(DIGITS, builder=builder), tmp_path, {})
    assert found == BROKEN[name]


def test_a_source_that_reads_files_needs_other_content(tmp_path):
    assert failing_of_data(LATENTS, tmp_path, latent_files(tmp_path, 0)) == {"fingerprint"}
