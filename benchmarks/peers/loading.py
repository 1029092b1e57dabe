"""Batches as a plain PyTorch training script loads them: a map-style data set per layout, and a `DataLoader`."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from PIL import Image
from safetensors import safe_open
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

Item = tuple[Tensor, int]


def image_tensor(image: Image.Image, side: int) -> Tensor:
    """The centre of an image, (3, side, side) in [-1, 1], as DiT's training script makes it."""
    image = image.convert("RGB")
    while min(image.size) >= 2 * side:
        image = image.resize((image.width // 2, image.height // 2), Image.Resampling.BOX)
    scale = side / min(image.size)
    image = image.resize((round(image.width * scale), round(image.height * scale)), Image.Resampling.BICUBIC)
    pixels = np.array(image)
    top, left = (pixels.shape[0] - side) // 2, (pixels.shape[1] - side) // 2
    crop = torch.from_numpy(pixels[top : top + side, left : left + side]).permute(2, 0, 1).contiguous()
    return (crop.float() / 255 - 0.5) / 0.5


class ImageFiles(Dataset[Item]):
    """Class folders."""

    def __init__(self, folder: str, side: int) -> None:
        self.side = side
        self.paths = sorted(Path(folder).glob("*/*"))
        classes = sorted({path.parent.name for path in self.paths})
        self.labels = [classes.index(path.parent.name) for path in self.paths]

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, item: int) -> Item:
        with Image.open(self.paths[item]) as image:
            return image_tensor(image, self.side), self.labels[item]


class ImageTable(Dataset[Item]):
    """A table with columns `image` and `label`, mapped into memory where it is an Arrow stream."""

    def __init__(self, path: str, side: int) -> None:
        self.side = side
        self.table: Any = (
            pq.read_table(path) if path.endswith(".parquet") else pa.ipc.open_stream(pa.memory_map(path)).read_all()
        )

    def __len__(self) -> int:
        return self.table.num_rows

    def __getitem__(self, item: int) -> Item:
        row = self.table.slice(item, 1).to_pylist()[0]
        with Image.open(io.BytesIO(row["image"]["bytes"])) as image:
            return image_tensor(image, self.side), row["label"]


class Latents(Dataset[Item]):
    """A safetensors file of `latents` and `labels`."""

    def __init__(self, path: str, scale: float) -> None:
        file = safe_open(path, framework="pt")
        self.scale = scale
        self.latents, self.labels = file.get_slice("latents"), file.get_tensor("labels")

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, item: int) -> Item:
        return self.latents[item].float() * self.scale, int(self.labels[item])


def loader(data: Dataset[Item], order: Sequence[int], batch: int, workers: int) -> DataLoader[Item]:
    """Batches of the samples in `order`, made by processes that stay."""
    return DataLoader(
        data, batch_size=batch, sampler=order, num_workers=workers, persistent_workers=True, drop_last=True
    )
