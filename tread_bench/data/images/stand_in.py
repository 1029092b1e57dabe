"""Random images that stand in for files which are not there, in the same layouts on disk."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from tread_bench.data.captions.family import METADATA, FolderCaptions
from tread_bench.data.captions.stand_in import random_captions, with_encoder_there
from tread_bench.data.hf_dataset.family import HfDatasetData
from tread_bench.data.image_folder.family import ImageFolderData
from tread_bench.data.images.family import ImageOptions, TableOptions
from tread_bench.data.parquet.family import ParquetData

_DETAIL = 8  # independent values along a side


def write_folders(options: ImageFolderData, folder: Path, count: int) -> ImageFolderData:
    """Class folders; captions are in COCO's file or in metadata.jsonl, as the options name them."""
    captions: dict[str, list[str]] = {}
    for split, seed, images in _splits(count):
        names = [f"class-{label:04d}" for label in range(options.num_classes)] or ["images"]
        for name in names:
            (folder / split / name).mkdir(parents=True)
        for number, (content, label) in enumerate(random_images(options, images, seed)):
            name = f"{names[label]}/{split}-{number:05d}.png"
            (folder / split / name).write_bytes(content)
            captions[name] = random_captions(number)
    return options.model_copy(update={**_named(folder, ""), "captions": _write_captions(options, folder, captions)})


def _write_captions(options: ImageFolderData, folder: Path, captions: dict[str, list[str]]) -> FolderCaptions | None:
    """Write the captions of images, by the images' names; return options that name them."""
    if options.captions is None:
        return None
    found = with_encoder_there(options.captions)
    if not found.files:
        lines = [json.dumps({"file_name": name, found.column: several}) for name, several in captions.items()]
        for split in ("train", "held_out"):
            (folder / split / METADATA).write_text("\n".join(lines))
        return found
    coco = {
        "images": [{"id": name, "file_name": name} for name in captions],
        "annotations": [{"image_id": name, "caption": one} for name, several in captions.items() for one in several],
    }
    (folder / "captions.json").write_text(json.dumps(coco))
    return found.model_copy(update={"files": (str(folder / "captions.json"),)})


def write_dataset(options: HfDatasetData, folder: Path, count: int) -> HfDatasetData:
    """Return a folder as `save_to_disk` of Hugging Face's `datasets` writes it."""
    from datasets import Dataset
    from datasets.table import InMemoryTable

    for split, seed, images in _splits(count):
        Dataset(InMemoryTable(_table(options, images, seed))).save_to_disk(folder / split)
    return options.model_copy(update={**_named(folder, ""), **_encoder_there(options)})


def write_parquet(options: ParquetData, folder: Path, count: int) -> ParquetData:
    """Return a Parquet file for each split."""
    for split, seed, images in _splits(count):
        pq.write_table(_table(options, images, seed), folder / f"{split}.parquet")
    return options.model_copy(update={**_named(folder, ".parquet"), **_encoder_there(options)})


def random_images(options: ImageOptions, count: int, seed: int) -> Iterator[tuple[bytes, int]]:
    """PNG files with labels in turn; every second one is larger than the suite wants."""
    generator = np.random.default_rng(seed)
    for number in range(count):
        shape = (_DETAIL, _DETAIL, options.channels)
        noise = Image.fromarray(generator.integers(0, 256, shape, dtype=np.uint8).squeeze())
        side = options.image_size + number % 2
        buffer = io.BytesIO()
        noise.resize((side, side), Image.Resampling.NEAREST).save(buffer, "PNG")
        yield buffer.getvalue(), number % max(options.num_classes, 1)


def _splits(count: int) -> Iterator[tuple[str, int, int]]:
    """Name, seed and number of images."""
    yield "train", 0, count
    yield "held_out", 1, max(16, count // 4)


def _named(folder: Path, suffix: str) -> dict[str, tuple[str]]:
    return {split: (str(folder / f"{split}{suffix}"),) for split in ("train", "held_out")}


def _table(options: TableOptions, count: int, seed: int) -> pa.Table:
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    rows = list(random_images(options, count, seed))
    images = pa.array([{"bytes": content, "path": None} for content, _ in rows], kind)
    labels = pa.array([label for _, label in rows])
    columns = {options.label_column: labels}
    if options.captions is not None:
        columns[options.captions.column] = pa.array([random_captions(number) for number in range(count)])
    columns[options.image_column] = images  # last: images where names are equal
    names = {"info": {"features": {options.label_column: {"names": ["dots"], "_type": "ClassLabel"}}}}
    return pa.table(columns).replace_schema_metadata({"huggingface": json.dumps(names)})


def _encoder_there(options: TableOptions) -> dict[str, object]:
    return {} if options.captions is None else {"captions": with_encoder_there(options.captions)}
