"""How fast batches are loaded, per layout, against a plain `DataLoader` over the same files."""

from __future__ import annotations

import io
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset

from benchmarks.figure import Figure, agree
from benchmarks.peers import loading as peers
from benchmarks.peers.packages import needed
from benchmarks.row import row
from benchmarks.timing import Bench, always
from tread_bench.core.describe.data_sources import DataOptions
from tread_bench.data.hf_dataset.family import HfDatasetData
from tread_bench.data.image_folder.family import ImageFolderData
from tread_bench.data.latents.options import LatentsData
from tread_bench.data.latents.source import LatentSet, fixed_noise
from tread_bench.data.loader import Loader
from tread_bench.data.parquet.family import ParquetData
from tread_bench.data.source import open_data

IMAGES, WIDTH, HEIGHT, SIDE = 256, 500, 375, 256  # JPEG files of ImageNet's usual size
LATENTS = 2048
CLASSES = 8
IMAGE_BATCH, LATENT_BATCH = 32, 256
SCALE = 0.18215
TOLERANCE = 1e-6  # x / 127.5 - 1 against (x / 255 - 0.5) / 0.5

Batches = Sequence[Sequence[Tensor]]


def images_compared(bench: Bench, options: DataOptions, plain: Dataset[peers.Item]) -> Figure:
    """The plain loader's time over ours for one epoch in the same order."""
    ours = open_data(options).train
    order = shuffled(len(ours), IMAGE_BATCH)

    def made(step: int) -> list[Tensor]:
        index = order[step * IMAGE_BATCH : (step + 1) * IMAGE_BATCH]
        return [ours.images(index), ours.labels(index)]

    our_epoch = epoch(bench, made, len(order) // IMAGE_BATCH)
    their_epoch = plain_epoch(bench, plain, order, IMAGE_BATCH)
    agreement = agree(flat(our_epoch()), flat(their_epoch()), TOLERANCE)
    return bench.faster(always(their_epoch), always(our_epoch), agreement, clock=bench.wall)


def latents_compared(bench: Bench, layout: str) -> Figure:
    """The same for latents as a network learns them: one of each pair, and the noise of a stored posterior, drawn by
    whoever makes the batch.
    """
    if layout == "maskdit-lmdb":
        needed("lmdb", "lmdb")
    with tempfile.TemporaryDirectory() as folder:
        # Both read the same files. The unmirrored ones are compared, since each side draws flips of its own.
        options = LatentsData(
            layout=layout, train=(folder,), held_out=(folder,), num_classes=CLASSES, scale=SCALE, shift=None
        )
        peers.WRITERS[layout](Path(folder), LATENTS, options.stored_shape, CLASSES)
        ours = LatentSet(options, options.train)
        plain = plain_latents(options, ours)
        order = shuffled(len(ours), LATENT_BATCH)
        first = order[:LATENT_BATCH]
        unmirrored = peers.Latents(plain.read, plain.labels, has_pairs=False)
        ((stored, _),) = peers.loader(unmirrored, first.tolist(), LATENT_BATCH, workers=1)
        spread = {"sample": None, "mean_std": "std", "mean_logvar": "logvar"}[options.quantity]
        sampler = peers.Sampler(spread, 1.0 if options.already_scaled else SCALE)
        fixed = torch.from_numpy(fixed_noise(first, ours.shape))
        agreement = agree([ours.images(first)], [sampler.of(stored, lambda mean: fixed)], TOLERANCE)

        def made(step: int) -> list[Tensor]:
            done = step * LATENT_BATCH
            index = order[done : done + LATENT_BATCH]
            return [ours.drawn(index, 0, done), ours.labels(index)]

        our_epoch = epoch(bench, made, len(order) // LATENT_BATCH)
        their_epoch = plain_epoch(bench, plain, order, LATENT_BATCH, sampler)
        our_epoch(), their_epoch()
        return bench.faster(always(their_epoch), always(our_epoch), agreement, clock=bench.wall)


def plain_latents(options: LatentsData, ours: LatentSet) -> peers.Latents:
    """The plain data set of a layout, with its samples in the same order."""
    folder = Path(options.train[0])
    paths = sorted(path for path in folder.rglob("*") if path.suffix in (".npy", ".tar", ".safetensors"))
    reads: dict[str, Callable[[], peers.Read]] = {
        "safetensors": lambda: peers.read_safetensors(paths[0], "latents"),
        "lightningdit": lambda: peers.read_safetensors(paths[0], "latents"),
        "tread-wds": lambda: peers.read_tar(paths[0]),
        "repa": lambda: peers.read_npy(paths),
        "fast-dit": lambda: peers.read_npy([path for path in paths if "features" in path.parent.name]),
        "maskdit-lmdb": lambda: peers.read_lmdb(copied(folder), options.stored_shape),
    }
    labels = ours.labels(np.arange(len(ours))).tolist()
    return peers.Latents(reads[options.layout](), labels, options.flips == "pair")


def copied(folder: Path) -> Path:
    """A copy: a process, or one that is forked from it, opens an LMDB once."""
    copy = folder / "copy"
    copy.mkdir()
    shutil.copy(folder / "data.mdb", copy)
    return copy


def shuffled(count: int, batch: int) -> NDArray[np.int64]:
    """Whole batches of samples in random order."""
    return np.random.default_rng(0).permutation(count)[: count // batch * batch]


def epoch(bench: Bench, made: Callable[[int], list[Tensor]], steps: int) -> Callable[[], Batches]:
    """Our loader, with as many threads as the row's."""

    def run() -> Batches:
        with Loader(made, range(steps), bench.threads) as batches:
            return list(batches)

    return run


def plain_epoch(
    bench: Bench,
    plain: Dataset[peers.Item],
    order: NDArray[np.int64],
    batch: int,
    sampler: peers.Sampler | None = None,
) -> Callable[[], Batches]:
    """A `DataLoader` with as many processes."""
    batches = peers.loader(plain, order.tolist(), batch, bench.threads, sampler)
    return lambda: list(batches)


def flat(batches: Batches) -> Iterator[Tensor]:
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
        return images_compared(bench, options, peers.ImageFiles(folder, SIDE))


@row("loading/hf_dataset", required=0.95)
def loading_hf_dataset(bench: Bench) -> Figure:
    """The same images from a data set that Hugging Face's `datasets` saved, decoded and cropped anew for each batch,
    against a plain `DataLoader` over the same Arrow file.
    """
    needed("datasets", "hf")
    from datasets import Dataset as Saved
    from datasets.table import InMemoryTable

    with tempfile.TemporaryDirectory() as folder, decoded_on_demand():
        Saved(InMemoryTable(image_table())).save_to_disk(folder)
        (path,) = Path(folder).glob("*.arrow")
        options = HfDatasetData(train=(folder,), held_out=(folder,), image_size=SIDE, num_classes=CLASSES)
        return images_compared(bench, options, peers.ImageTable(str(path), SIDE))


@row("loading/parquet", required=0.95)
def loading_parquet(bench: Bench) -> Figure:
    """The same images from a Parquet file, which are decoded once and kept in memory, against a plain `DataLoader` that
    has the file's content in memory and decodes it for each batch.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "images.parquet")
        pq.write_table(image_table(), path, row_group_size=100)
        options = ParquetData(train=(path,), held_out=(path,), image_size=SIDE, num_classes=CLASSES)
        return images_compared(bench, options, peers.ImageTable(path, SIDE))


for _layout, _what in {
    "safetensors": "one file, mapped into memory",
    "lightningdit": "one safetensors file with mirrored latents, of which one of each pair is drawn",
    "tread-wds": "a tar shard of WebDataset",
    "repa": "a file of mean and standard deviation for each sample, as EDM2 and SR-DiT store them too",
    "fast-dit": "a file for each latent and each label",
    "maskdit-lmdb": "moments in an LMDB",
}.items():
    row(
        f"loading/{_layout}",
        required=0.95,
        claim=f"Batches of 256 latents of 4x32x32 in layout {_layout} ({_what}), scaled, with noise drawn where "
        "moments are stored, against a plain `DataLoader` over the same files whose workers do the same by "
        "`torch.randn`.",
    )(partial(latents_compared, layout=_layout))


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
