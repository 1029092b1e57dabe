"""Batches as a plain PyTorch training script loads them: a map-style data set per layout, and a `DataLoader`."""

from __future__ import annotations

import io
import json
import os
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray
from PIL import Image
from safetensors import safe_open
from safetensors.numpy import save_file
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, default_collate

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


Read = Callable[[int, bool], NDArray[np.generic]]  # (sample, whether mirrored) -> what is stored of it


class Latents(Dataset[Item]):
    """Latents or moments as they are stored; with `has_pairs`, one of each pair of a latent and its mirror image."""

    def __init__(self, read: Read, labels: Sequence[int], has_pairs: bool) -> None:
        self.read, self.labels, self.has_pairs = read, labels, has_pairs

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, item: int) -> Item:
        is_mirrored = self.has_pairs and bool(torch.rand(()) < 0.5)
        return torch.from_numpy(self.read(item, is_mirrored)).float(), self.labels[item]


class Sampler:
    """What a network learns of a batch of stored latents or moments, noise by torch's own generator.

    Args:
        spread: what stands after the mean of each channel: `std` or `logvar`; None: samples are stored.
    """

    def __init__(self, spread: str | None, scale: float) -> None:
        self.spread, self.scale = spread, scale

    def __call__(self, items: list[Item]) -> list[Tensor]:
        stored, labels = default_collate(items)
        return [self.of(stored, torch.randn_like), labels]

    def of(self, stored: Tensor, noise: Callable[[Tensor], Tensor]) -> Tensor:
        """(B, C, H, W) float32; `noise` gives that of its argument's shape."""
        if self.spread is None:
            return stored * self.scale
        mean, std = stored.chunk(2, dim=1)
        if self.spread == "logvar":
            std = torch.exp(0.5 * torch.clamp(std, -30.0, 20.0))
        return (mean + std * noise(mean)) * self.scale


def read_safetensors(path: Path, key: str) -> Read:
    """Rows of a file, sliced one by one, as LightningDiT's data set does it."""
    file: Any = safe_open(path, framework="np")
    slices = {name: file.get_slice(name) for name in file.keys() if name.startswith(key)}  # noqa: SIM118
    return lambda item, mirrored: slices[f"{key}_flip" if mirrored else key][item]


def read_npy(paths: Sequence[Path]) -> Read:
    return lambda item, mirrored: np.load(paths[item]).squeeze()


def read_tar(path: Path) -> Read:
    """Members of a shard, by their places."""
    with tarfile.open(path) as shard:
        places = [(member.offset_data, member.size) for member in shard if member.name.endswith(".npy")]

    def read(item: int, mirrored: bool) -> NDArray[np.generic]:
        place, size = places[item]
        with open(path, "rb") as file:
            file.seek(place)
            found: NDArray[np.generic] = np.load(io.BytesIO(file.read(size)))
        return found

    return read


def read_lmdb(folder: Path, shape: Sequence[int]) -> Read:
    """MaskDiT's data set: `z-0`, `z-1`, ..., by an environment of each worker's own."""
    import lmdb

    databases: dict[int, Any] = {}

    def read(item: int, mirrored: bool) -> NDArray[np.generic]:
        if os.getpid() not in databases:
            databases[os.getpid()] = lmdb.open(str(folder), readonly=True, lock=False, readahead=False)
        with databases[os.getpid()].begin() as transaction:
            content = transaction.get(b"z-%d" % item)
        found: NDArray[np.generic] = np.frombuffer(content, np.float32).reshape(shape).copy()
        return found

    return read


# ---- files of each layout, of random values


def values(count: int, shape: Sequence[int]) -> NDArray[np.float32]:
    return np.random.default_rng(0).standard_normal((count, *shape), dtype=np.float32)


def write_safetensors(folder: Path, count: int, shape: Sequence[int], classes: int, *mirrored: str) -> None:
    tensors = {name: values(count, shape) for name in ("latents", *mirrored)}
    save_file({**tensors, "labels": np.arange(count) % classes}, folder / "latents-00000.safetensors")


def write_tar(folder: Path, count: int, shape: Sequence[int], classes: int) -> None:
    with tarfile.open(folder / "train-0000.tar", "w") as shard:
        for i, value in enumerate(values(count, shape)):
            content = io.BytesIO()
            np.save(content, value)
            for name, member in ((f"{i:07d}.cls", b"%d" % (i % classes)), (f"{i:07d}.latent.npy", content.getvalue())):
                about = tarfile.TarInfo(name)
                about.size = len(member)
                shard.addfile(about, io.BytesIO(member))


def write_listed(folder: Path, count: int, shape: Sequence[int], classes: int) -> None:
    names = [f"00000/img-mean-std-{i:08d}.npy" for i in range(count)]
    (folder / "00000").mkdir()
    for name, value in zip(names, values(count, shape), strict=True):
        np.save(folder / name, value)
    labels = [[name, i % classes] for i, name in enumerate(names)]
    (folder / "dataset.json").write_text(json.dumps({"labels": labels}))


def write_numbered(folder: Path, count: int, shape: Sequence[int], classes: int) -> None:
    for name, each in (("features", values(count, shape)), ("labels", np.arange(count) % classes)):
        (folder / f"imagenet_{name}").mkdir()
        for i in range(count):
            np.save(folder / f"imagenet_{name}" / f"{i}.npy", each[i : i + 1])


def write_lmdb(folder: Path, count: int, shape: Sequence[int], classes: int) -> None:
    import lmdb

    with lmdb.open(str(folder), map_size=2**30) as database, database.begin(write=True) as write:
        for i, value in enumerate(values(count, shape)):
            write.put(b"z-%d" % i, value.tobytes())
            write.put(b"y-%d" % i, b"%d" % (i % classes))
        write.put(b"length", b"%d" % count)


WRITERS: dict[str, Callable[[Path, int, Sequence[int], int], None]] = {
    "safetensors": write_safetensors,
    "lightningdit": lambda *arguments: write_safetensors(*arguments, "latents_flip"),
    "tread-wds": write_tar,
    "repa": write_listed,
    "fast-dit": write_numbered,
    "maskdit-lmdb": write_lmdb,
}


def loader(
    data: Dataset[Item], order: Sequence[int], batch: int, workers: int, collate: Sampler | None = None
) -> DataLoader[Item]:
    """Batches of the samples in `order`, made by processes that stay."""
    return DataLoader(
        data,
        batch_size=batch,
        sampler=order,
        num_workers=workers,
        multiprocessing_context="fork",
        collate_fn=collate,
        persistent_workers=True,
        drop_last=True,
    )
