"""The rule between the range of a model and pixels or latents; sources without files: digits, noise, stand-ins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.data.checked import failing_of_data
from tread_bench.core.errors import UserError
from tread_bench.core.numbers import draws
from tread_bench.data.digits.family import DigitsData
from tread_bench.data.random_latents.family import RANDOM_LATENTS, RandomLatentsData
from tread_bench.data.scaling import Scaling
from tread_bench.data.source import ImageSet, flip, from_uint8, open_data, to_uint8
from tread_bench.data.stand_in.family import STAND_IN, StandInData
from tread_bench.measure.quality.decoder import open_decoder


def test_every_pixel_value_survives_the_way_to_the_model_and_back() -> None:
    pixels = torch.arange(256, dtype=torch.uint8)
    images = from_uint8(pixels)
    assert images.dtype == torch.float32 and (images.min(), images.max()) == (-1, 1)
    assert torch.equal(to_uint8(images), pixels)


def test_values_are_rounded_to_the_nearest_pixel_and_clamped() -> None:
    images = torch.tensor([-3.0, -1.0, -1 + 0.49 / 127.5, -1 + 0.51 / 127.5, -1 + 1.01 / 127.5, 0.0, 1.0, 1.7])
    assert to_uint8(images).tolist() == [0, 0, 0, 1, 1, 128, 255, 255]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_value_that_is_not_finite_has_no_pixel(value: float) -> None:
    with pytest.raises(FloatingPointError, match="diverged"):
        to_uint8(torch.tensor([0.0, value]))


def test_flip_mirrors_the_masked_images_alone() -> None:
    images = torch.arange(12.0).reshape(2, 1, 2, 3)
    flipped = flip(images, torch.tensor([False, True]))
    assert torch.equal(flipped[0], images[0])
    assert flipped[1, 0].tolist() == [[8, 7, 6], [11, 10, 9]]


def test_digits_are_scikit_learns_and_the_held_out_fifth_is_balanced() -> None:
    from sklearn.datasets import load_digits

    data = open_data(DigitsData())
    levels = np.concatenate([data.train.pixels, data.held_out.pixels])[:, 0] * (16 / 255)
    assert np.array_equal(levels.round(), load_digits().images)
    assert (data.image_size, data.channels, data.num_classes) == (8, 1, 10)
    assert (len(data.train), len(data.held_out)) == (1438, 359)
    assert set(np.bincount(data.held_out.classes)) <= set(range(33, 38))


def test_the_hash_moves_with_pixels_labels_and_shape() -> None:
    pixels, classes = np.zeros((4, 1, 2, 2), dtype=np.uint8), np.zeros(4, dtype=np.int64)
    brighter, relabelled = pixels.copy(), classes.copy()
    brighter[3, 0, 1, 1], relabelled[2] = 1, 1
    sets = [(pixels, classes), (brighter, classes), (pixels, relabelled), (pixels.reshape(4, 1, 1, 4), classes)]
    assert len({ImageSet(*each).sha256 for each in sets}) == 4
    assert ImageSet(pixels, classes).sha256 == ImageSet(pixels.copy(), classes.copy()).sha256


# ---- noise in the shape of latents


def latents(**changes):
    return open_data(RandomLatentsData(name="random_latents", **changes))


def test_a_sample_depends_on_its_index_alone_as_in_a_table_drawn_at_once():
    few, many = latents(count=50), latents(count=500)
    both = torch.cat([few.train.images(np.arange(40)), few.held_out.images(np.arange(10))])
    index = np.random.default_rng(0).permutation(50)
    table = (draws.uniform(0, "random latents", 0, 50, (4, 32, 32)) * 256).astype(np.uint8)
    assert torch.equal(both, from_uint8(torch.from_numpy(table)))
    assert torch.equal(both[index], many.train.images(index))
    assert torch.equal(few.train.labels(np.arange(40)), many.train.labels(np.arange(40)))


def test_values_fill_the_range_and_labels_the_classes():
    data = latents(count=1000, num_classes=10)
    x = data.train.images(np.arange(800))
    assert x.min() == -1 and x.max() == 1 and abs(x.mean()) < 0.01
    assert set(data.train.classes.tolist()) == set(range(10))
    assert set(latents(count=10, num_classes=0).train.classes) == {0}


def test_generated_samples_of_noise_cannot_be_judged():
    assert "set metrics.generate: false" in RANDOM_LATENTS.not_comparable(RandomLatentsData())


# ---- random samples in place of missing files, their captions and images, and the decoder

SETTINGS = {
    "images": {"image_size": 8, "num_classes": 3},
    "captioned": {"image_size": 8, "num_classes": 0, "text": [6, 10]},
    "latents": {"image_size": 4, "channels": 4, "num_classes": 3, "picture_size": 16},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_they_keep_the_contract_of_data_sources(name: str, tmp_path: Path) -> None:
    assert failing_of_data(STAND_IN, tmp_path, SETTINGS[name]) == set()


def test_latents_have_images_of_their_own_and_an_enlargement_makes_others() -> None:
    choice = StandInData.model_validate({**SETTINGS["latents"], "is_decoded": True})
    train = open_data(choice).train
    assert train.pictures(np.arange(3), 0, 0).shape == (3, 3, 16, 16)
    images = open_decoder(choice)(train.images(np.arange(5)))
    assert images.shape == (5, 3, 16, 16) and images.abs().max() <= 1


SHAPE = (3, 2, 2)
RANDOM = np.random.default_rng(0)
LATENTS = torch.from_numpy(RANDOM.normal(size=(5, *SHAPE)).astype(np.float32))


def saved(path: Path, array: Any) -> str:
    np.save(path, array)
    return str(path)


FACTORS = {
    "number": 0.3611,
    "channels": (0.5, 2.0, 3.0),
    "array of channels": RANDOM.uniform(1, 2, (3, 1, 1)),
    "positions": RANDOM.uniform(1, 2, SHAPE),
}


@pytest.mark.parametrize("value", FACTORS.values(), ids=FACTORS)
def test_what_is_learnt_is_scale_times_latent_less_shift(tmp_path: Path, value: Any) -> None:
    given = saved(tmp_path / "value.npy", value) if isinstance(value, np.ndarray) else value
    factor = np.reshape(value, (3, 1, 1)) if isinstance(value, tuple) else value
    for shift, subtracted in ((None, 0.0), (given, factor)):
        scaling = Scaling(given, shift, SHAPE)
        expected = (LATENTS.double().numpy() - subtracted) * factor
        assert np.allclose(scaling.scaled(LATENTS), expected, rtol=1e-5, atol=1e-6)
        assert torch.allclose(scaling.unscaled(scaling.scaled(LATENTS)), LATENTS, rtol=1e-5, atol=1e-6)


def test_one_number_is_divided_by_as_it_is() -> None:
    """On a GPU, a division by a tensor rounds otherwise than one by a number."""
    assert Scaling(0.18215, None, SHAPE).scale == 0.18215
    assert torch.equal(Scaling(0.18215, None, SHAPE).unscaled(LATENTS), LATENTS / 0.18215)


@pytest.mark.parametrize(
    ("scale", "told"),
    [
        ((1.0, 2.0), "scale: 2 numbers for latents of 3 channels"),
        ((1.0, 2.0, 0.0), "contains 0"),
        (np.zeros((3, 1, 1)), "contains 0"),
        (np.ones((2, 1, 1)), r"an array of shape \(2, 1, 1\); save \(3, 1, 1\) or \(3, 2, 2\)"),
        (np.full((3, 1, 1), np.nan), "contains NaN"),
        (np.array([{}], dtype=object), r"scale\.npy: scale holds Python objects"),
        (np.array(["a"]), r"scale is str\d+; store float32 or float64"),
        (b"\x93NUMPY", r"scale\.npy: scale: not a readable NumPy header .*write it with numpy\.save"),
        (None, r"scale\.npy cannot be read \(No such file"),
    ],
)
def test_what_does_not_fit_the_latents_is_refused(tmp_path: Path, scale: Any, told: str) -> None:
    path = tmp_path / "scale.npy"
    if isinstance(scale, np.ndarray):
        np.save(path, scale, allow_pickle=True)
    elif isinstance(scale, bytes):
        path.write_bytes(scale)
    with pytest.raises(UserError, match=told):
        Scaling(scale if isinstance(scale, tuple) else str(path), None, SHAPE)
