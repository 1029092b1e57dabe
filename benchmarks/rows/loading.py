"""How fast batches are loaded, per layout, against a plain `DataLoader` over the same files."""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from PIL import Image
from safetensors.torch import save_file
from torch import Tensor
from torch.utils.data import Dataset

from benchmarks.peers import loading as peers
from benchmarks.row import Figure, agree, row
from benchmarks.timing import Bench, always
from tread_bench.core.data_sources import DataOptions
from tread_bench.data.hf_dataset.family import HfDatasetData
from tread_bench.data.image_folder.family import ImageFolderData
from tread_bench.data.latents.family import LatentsData
from tread_bench.data.loader import Loader
from tread_bench.data.open import open_data
from tread_bench.data.parquet.family import ParquetData
from tread_bench.data.source import DataSplit

IMAGES, WIDTH, HEIGHT, SIDE = 256, 500, 375, 256  # JPEG files of ImageNet's usual size
LATENTS = 8192
CLASSES = 8
IMAGE_BATCH, LATENT_BATCH = 32, 256
SCALE = 0.18215
TOLERANCE = 1e-6  # x / 127.5 - 1 against (x / 255 - 0.5) / 0.5

Pair = tuple[DataOptions, Dataset[peers.Item]]


def compared(bench: Bench, pair: Pair, batch: int) -> Figure:
    """Batches of one epoch in the same order: the plain loader's time over ours, with as many workers as threads."""
    options, plain = pair
    ours = open_data(options).train
    order = np.random.default_rng(0).permutation(len(ours))[: len(ours) // batch * batch]
    theirs = peers.loader(plain, order.tolist(), batch, bench.threads)

    def our_epoch() -> list[list[Tensor]]:
        with Loader(lambda step: made(ours, order, step, batch), range(len(order) // batch), bench.threads) as batches:
            return list(batches)

    def their_epoch() -> list[list[Tensor]]:
        return list(theirs)

    agreement = agree(flat(our_epoch()), flat(their_epoch()), TOLERANCE)
    return bench.faster(always(their_epoch), always(our_epoch), agreement, clock=bench.wall)


def made(split: DataSplit, order: np.ndarray, step: int, batch: int) -> list[Tensor]:
    index = order[step * batch : (step + 1) * batch]
    return [split.images(index), split.labels(index)]


def flat(batches: Sequence[Sequence[Tensor]]) -> Iterator[Tensor]:
    return (tensor for batch in batches for tensor in batch)


@row("loading/image_folder", required=0.95)
def loading_image_folder(bench: Bench) -> Figure:
    """Batches of 32 images of 256 pixels from JPEG files of 500x375 in class folders, decoded and cropped anew for each
    batch, as in a set that is too large to be kept decoded, against a plain `DataLoader` with as many worker processes
    as this loader has threads.
    """
    with tempfile.TemporaryDirectory() as folder, decoded_on_demand():
        for number, content in enumerate(jpegs()):
            path = Path(folder) / f"class-{number % CLASSES}" / f"{number:05d}.jpg"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content)
        options = ImageFolderData(train=(folder,), held_out=(folder,), image_size=SIDE, num_classes=CLASSES)
        return compared(bench, (options, peers.ImageFiles(folder, SIDE)), IMAGE_BATCH)


@row("loading/hf_dataset", required=0.95)
def loading_hf_dataset(bench: Bench) -> Figure:
    """The same images from a data set that Hugging Face's `datasets` saved, decoded and cropped anew for each batch,
    against a plain `DataLoader` over the same Arrow file.
    """
    with tempfile.TemporaryDirectory() as folder, decoded_on_demand():
        path = Path(folder) / "data-00000-of-00001.arrow"
        table = image_table()
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table, max_chunksize=100)
        (Path(folder) / "state.json").write_text(json.dumps({"_data_files": [{"filename": path.name}]}))
        options = HfDatasetData(train=(folder,), held_out=(folder,), image_size=SIDE, num_classes=CLASSES)
        return compared(bench, (options, peers.ImageTable(str(path), SIDE)), IMAGE_BATCH)


@row("loading/parquet", required=0.95)
def loading_parquet(bench: Bench) -> Figure:
    """The same images from a Parquet file, which are decoded once and kept in memory, against a plain `DataLoader` that
    has the file's content in memory and decodes it for each batch.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "images.parquet")
        pq.write_table(image_table(), path, row_group_size=100)
        options = ParquetData(train=(path,), held_out=(path,), image_size=SIDE, num_classes=CLASSES)
        return compared(bench, (options, peers.ImageTable(path, SIDE)), IMAGE_BATCH)


@row("loading/latents", required=0.95)
def loading_latents(bench: Bench) -> Figure:
    """Batches of 256 latents of 4x32x32 from a safetensors file in float16, against a plain `DataLoader` that slices
    the same file sample by sample.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "latents.safetensors")
        generator = torch.Generator().manual_seed(0)
        latents = torch.randn(LATENTS, 4, 32, 32, generator=generator).div(SCALE).half()
        save_file({"latents": latents, "labels": torch.arange(LATENTS) % CLASSES}, path)
        options = LatentsData(train=(path,), held_out=(path,), num_classes=CLASSES, scale=SCALE)
        return compared(bench, (options, peers.Latents(path, SCALE)), LATENT_BATCH)


@contextmanager
def decoded_on_demand() -> Iterator[None]:
    """As in a set that is too large to be kept decoded."""
    with patch("tread_bench.data.images.encoded.MOST_BYTES", 0):
        yield


def jpegs() -> Iterator[bytes]:
    """Files with the detail of photographs: noise of several scales."""
    generator = np.random.default_rng(0)
    for _ in range(IMAGES):
        image = Image.new("RGB", (WIDTH, HEIGHT))
        for scale in (64, 16, 4):
            size = (WIDTH // scale + 1, HEIGHT // scale + 1)
            noise = Image.fromarray(generator.integers(0, 256, (size[1], size[0], 3), dtype=np.uint8))
            image = Image.blend(image, noise.resize(image.size, Image.Resampling.BICUBIC), 0.5)
        buffer = io.BytesIO()
        image.save(buffer, "JPEG", quality=90)
        yield buffer.getvalue()


def image_table() -> pa.Table:
    """Hugging Face's image schema."""
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    images = [{"bytes": content, "path": None} for content in jpegs()]
    labels = [number % CLASSES for number in range(len(images))]
    return pa.table({"image": pa.array(images, kind), "label": pa.array(labels, pa.int64())})
