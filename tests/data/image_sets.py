"""Small sets of images, as users have them on disk."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
from PIL import Image

from tests.data.test_parquet import KIND, png

CLASSES = ("cat", "dog", "eel")


def pictures(count: int, seed: int) -> list[np.ndarray]:
    """Images of 4 to 6 pixels on a side."""
    generator = np.random.default_rng(seed)
    sizes = generator.integers(4, 7, (count, 2))
    return [generator.integers(0, 256, (height, width, 3), dtype=np.uint8) for height, width in sizes]


def write_folder(folder: Path, count: int, seed: int = 0) -> str:
    """PNG files in class folders; the k-th is in class k % 3."""
    for number, image in enumerate(pictures(count, seed)):
        path = folder / CLASSES[number % 3] / f"{number:03d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(path)
    return str(folder)


def write_dataset(folder: Path, count: int, seed: int = 0, files: int = 2, rows: int = 16) -> str:
    """What `datasets.Dataset.save_to_disk(folder, num_shards=files)` leaves; the k-th image is in class k % 3."""
    images = pa.array([png(image) for image in pictures(count, seed)], KIND)
    table = pa.table({"image": images, "label": pa.array([number % 3 for number in range(count)], pa.int64())})
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"data-{number:05d}-of-{files:05d}.arrow" for number in range(files)]
    size = -(-count // files)
    for number, name in enumerate(names):
        with pa.OSFile(str(folder / name), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table.slice(number * size, size), max_chunksize=rows)
    state = {"_data_files": [{"filename": name} for name in names], "_fingerprint": f"{seed}", "_split": "train"}
    (folder / "state.json").write_text(json.dumps(state))
    return str(folder)
