"""Small sets of images, as users have them on disk."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
from datasets import Dataset
from datasets.table import InMemoryTable
from PIL import Image

from tests.data.test_parquet import KIND, png
from tread_bench.data.images.decode import center_crop

CLASSES = ("cat", "dog", "eel")


def pictures(count: int, seed: int) -> list[np.ndarray]:
    """Images of 4 to 6 pixels on a side."""
    generator = np.random.default_rng(seed)
    sizes = generator.integers(4, 7, (count, 2))
    return [generator.integers(0, 256, (height, width, 3), dtype=np.uint8) for height, width in sizes]


def cropped(count: int, seed: int) -> np.ndarray:
    """The same after ADM's crop to 4 pixels, (N, 3, 4, 4)."""
    images = [np.asarray(center_crop(Image.fromarray(image), 4)) for image in pictures(count, seed)]
    return np.stack(images).transpose(0, 3, 1, 2)


def write_folder(folder: Path, count: int, seed: int = 0) -> str:
    """PNG files in class folders; the k-th is in class k % 3."""
    for number, image in enumerate(pictures(count, seed)):
        path = folder / CLASSES[number % 3] / f"{number:03d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(path)
    return str(folder)


def write_dataset(folder: Path, count: int, seed: int = 0, files: int = 2) -> str:
    """What `datasets.Dataset.save_to_disk(folder, num_shards=files)` leaves; the k-th image is in class k % 3."""
    images = pa.array([png(image) for image in pictures(count, seed)], KIND)
    table = pa.table({"image": images, "label": pa.array([number % 3 for number in range(count)], pa.int64())})
    Dataset(InMemoryTable(table)).save_to_disk(folder, num_shards=files)
    return str(folder)
