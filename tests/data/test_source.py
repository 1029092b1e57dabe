"""The rule between the model's range and pixels, and what a source promises."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tread_bench.data.digits.family import DigitsData
from tread_bench.data.open import open_data
from tread_bench.data.source import ImageSet, flip, from_uint8, to_uint8


def test_every_pixel_value_survives_the_way_to_the_model_and_back() -> None:
    pixels = torch.arange(256, dtype=torch.uint8)
    images = from_uint8(pixels)
    assert images.dtype == torch.float32
    assert images.min() == -1
    assert images.max() == 1
    assert torch.equal(to_uint8(images), pixels)


def test_values_are_rounded_to_the_nearest_pixel_and_clamped() -> None:
    images = torch.tensor([-3.0, -1.0, -1 + 0.49 / 127.5, -1 + 0.51 / 127.5, 0.0, 1.0, 1.7])
    assert to_uint8(images).tolist() == [0, 0, 0, 1, 128, 255, 255]


def test_truncated_values_are_the_pixel_below() -> None:
    images = torch.tensor([-3.0, -1.0, -1 + 0.99 / 127.5, -1 + 1.01 / 127.5, 0.0, 1.0, 1.7])
    assert to_uint8(images, "truncate").tolist() == [0, 0, 0, 1, 127, 255, 255]
    many = torch.linspace(-1, 1, 10_001)
    darker = (to_uint8(many).float() - to_uint8(many, "truncate").float()).mean()
    assert float(darker) == pytest.approx(0.5, abs=0.01)  # half a level


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_value_that_is_not_finite_has_no_pixel(value: float) -> None:
    with pytest.raises(FloatingPointError, match="diverged"):
        to_uint8(torch.tensor([0.0, value]))


def test_flip_mirrors_the_masked_images_alone() -> None:
    images = torch.arange(12.0).reshape(2, 1, 2, 3)
    flipped = flip(images, torch.tensor([False, True]))
    assert torch.equal(flipped[0], images[0])
    assert flipped[1, 0].tolist() == [[8, 7, 6], [11, 10, 9]]


def test_digits_are_scikit_learns() -> None:
    from sklearn.datasets import load_digits

    data = open_data(DigitsData())
    levels = np.concatenate([data.train.pixels, data.held_out.pixels])[:, 0] * (16 / 255)
    assert np.array_equal(levels.round(), load_digits().images)
    assert (data.image_size, data.channels, data.num_classes) == (8, 1, 10)


def test_the_held_out_fifth_of_the_digits_is_balanced() -> None:
    data = open_data(DigitsData())
    assert (len(data.train), len(data.held_out)) == (1438, 359)
    assert set(np.bincount(data.held_out.classes)) <= set(range(33, 38))


def test_the_hash_moves_with_pixels_labels_and_shape() -> None:
    pixels, classes = np.zeros((4, 1, 2, 2), dtype=np.uint8), np.zeros(4, dtype=np.int64)
    brighter, relabelled = pixels.copy(), classes.copy()
    brighter[3, 0, 1, 1], relabelled[2] = 1, 1
    sets = [(pixels, classes), (brighter, classes), (pixels, relabelled), (pixels.reshape(4, 1, 1, 4), classes)]
    assert len({ImageSet(*each).sha256 for each in sets}) == 4
    assert ImageSet(pixels, classes).sha256 == ImageSet(pixels.copy(), classes.copy()).sha256
