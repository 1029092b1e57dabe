"""scikit-learn's scanned digits: 1,797 images of 8x8 grey levels 0 .. 16, in the library itself, no download.

The files are in the order of the people who wrote (UCI's optical recognition of handwritten digits), so that the last
fifth has 33 to 37 images of every class, mostly by people who are not in the training images.
"""

from __future__ import annotations

import numpy as np
import torch

from tread_bench.data.digits.family import DigitsData
from tread_bench.data.source import DataSource, ImageSet, to_uint8


def read_digits(choice: DigitsData) -> DataSource:
    """1,438 training images and the last fifth, 359 images, held out; grey level g is x = g / 8 - 1."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    pixels = to_uint8(torch.from_numpy(digits.images[:, None] / 8 - 1)).numpy()
    classes = digits.target.astype(np.int64)
    first_held_out = len(pixels) - len(pixels) // 5
    return DataSource(
        train=ImageSet(pixels[:first_held_out], classes[:first_held_out]),
        held_out=ImageSet(pixels[first_held_out:], classes[first_held_out:]),
        num_classes=choice.num_classes,
    )
