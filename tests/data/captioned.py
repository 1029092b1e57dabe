"""Small sets of images with five captions each, as people have them on disk: one content, in every layout."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from tread_bench.core.describe.data_sources import DataOptions, data_sources

PAGE = Path(__file__).parents[2] / "docs" / "methods" / "captions.md"
SIDE = 8
COUNTS = {"train": 200, "val": 40}
KIND = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
_NOUNS = ("dog", "cat", "street", "kitchen", "wave")


def name_of(split: str, number: int) -> str:
    return f"COCO_{split}2014_{number:012d}.jpg"


def captions_of(split: str, number: int) -> list[str]:
    return [f"A {noun} with {number} things in {split}, seen {k + 1} times." for k, noun in enumerate(_NOUNS)]


def picture(split: str, number: int) -> bytes:
    generator = np.random.default_rng((number, len(split)))
    stream = io.BytesIO()
    Image.fromarray(generator.integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)).save(stream, "PNG")
    return stream.getvalue()


def write_images(root: Path) -> None:
    for split, count in COUNTS.items():
        (root / f"{split}2014").mkdir(parents=True)
        for number in range(count):
            (root / f"{split}2014" / name_of(split, number)).write_bytes(picture(split, number))


def with_coco(root: Path) -> DataOptions:
    """COCO's files, whose annotations are in no order of images."""
    write_images(root)
    files = []
    for split, count in COUNTS.items():
        images = [{"id": 7 * n, "file_name": name_of(split, n), "height": SIDE} for n in reversed(range(count))]
        annotations = [
            {"image_id": 7 * number, "id": 1000 * place + number, "caption": captions_of(split, number)[place]}
            for place in range(5)
            for number in range(count)
        ]
        path = root / f"captions_{split}2014.json"
        path.write_text(json.dumps({"info": {}, "images": images, "annotations": annotations}))
        files.append(str(path))
    return _folders(root, files=files)


def with_metadata(root: Path) -> DataOptions:
    write_images(root)
    for split, count in COUNTS.items():
        lines = [{"file_name": name_of(split, n), "text": captions_of(split, n)} for n in range(count)]
        (root / f"{split}2014" / "metadata.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    return _folders(root)


def with_text_files(root: Path) -> DataOptions:
    write_images(root)
    for split, count in COUNTS.items():
        for number in range(count):
            path = (root / f"{split}2014" / name_of(split, number)).with_suffix(".txt")
            path.write_text("\n".join(captions_of(split, number)) + "\n")
    (lines,) = re.findall(r"```python\n(import json.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    for split in COUNTS:
        exec(lines.replace("IMAGES", str(root / f"{split}2014")), {})  # which make metadata.jsonl
    return _folders(root)


def write_table(path: Path, split: str, **columns: list[Any]) -> str:
    """Of as many images as captions or labels."""
    count = len(next(iter(columns.values())))
    images = [{"bytes": picture(split, one), "path": None} for one in range(count)]
    pq.write_table(pa.table({"image": pa.array(images, KIND), **columns}), path, row_group_size=64)
    return str(path)


def with_parquet(root: Path) -> DataOptions:
    root.mkdir(parents=True)
    files = []
    for split, count in COUNTS.items():
        captions = [captions_of(split, one) for one in range(count)]
        files.append(write_table(root / f"{split}.parquet", split, text=captions))
    return options("parquet", train=files[:1], held_out=files[1:])


LAYOUTS = {"coco": with_coco, "text_files": with_text_files, "parquet": with_parquet}


def options(name: str, captions: Any = "words", **more: Any) -> DataOptions:
    settings = {"name": name, "image_size": SIDE, "num_classes": 0, "captions": captions, **more}
    return data_sources.find(name).options.model_validate(settings)


def _folders(root: Path, **captions: Any) -> DataOptions:
    folders = {"train": [str(root / "train2014")], "held_out": [str(root / "val2014")]}
    return options("image_folder", {"encoder": "words", **captions}, **folders)
