"""Random latents in a layout's own files, for a trial run where the real ones are missing."""

from __future__ import annotations

import io
import json
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import save_file

from tread_bench.core.describe.plugins import named
from tread_bench.data.captions.stand_in import random_captions
from tread_bench.data.images.stand_in import random_images, write_parquet
from tread_bench.data.latents.captions import CAPTION_BYTES, CAPTIONS, COUNTS, EMPTY_TEXT, TEXT
from tread_bench.data.latents.family import LatentsData
from tread_bench.data.latents.lmdb_store import lmdb_package
from tread_bench.data.parquet.family import ParquetData

_STD = 0.1  # of the posterior, where a mean has 1
_DECODED = 16  # latents that an exported decoder takes at a time

Values = NDArray[np.float32]


@dataclass(frozen=True)
class Samples:
    """What is stored: values (N, C', H, W), those of mirrored images, and labels (N,)."""

    values: Values
    mirrored: Values
    labels: NDArray[np.int64]


def stand_in(options: LatentsData, folder: Path, count: int) -> LatentsData:
    """Write `count` random training samples and fewer held-out ones; return options that name these files.

    Decoder and images are stand-ins too, where named.
    """
    random = np.random.default_rng(0)
    changed: dict[str, Any] = {}

    # Latents of both splits.
    write = named(options.about.writer)
    names: list[str] = []
    for key, wanted in (("train", count), ("held_out", max(16, count // 4))):
        place = folder / key
        place.mkdir(parents=True)
        found = write(options, place, _samples(options, random, wanted))
        names = names or found
        changed[key] = (str(place),)

    # Arrays of the scale, which leave the values as they are.
    for key, number in (("scale", 1.0), ("shift", 0.0)):
        if isinstance(getattr(options, key), str):
            changed[key] = str(folder / f"{key}.npy")
            np.save(changed[key], np.full((options.channels, 1, 1), number, dtype=np.float32))

    # Decoder and images.
    if options.decoder is not None:
        changed["decoder"] = str(_write_decoder(options, folder / "decoder.pt2"))
    pictures = ParquetData(
        train=("",), held_out=("",), image_size=options.decoded_size, num_classes=0, image_column=options.image_column
    )
    if options.images:
        (folder / "images").mkdir()
        changed["images"] = write_parquet(pictures, folder / "images", count).train
    if options.train_images is not None:
        changed["train_images"] = str(folder / "train_images")
        for name, (image, _) in zip(names, random_images(pictures, len(names), seed=0), strict=True):
            path, _, file = name.rpartition("/")
            _write(folder / "train_images" / path / f"{file.partition('.')[0].replace('-mean-std-', '')}.png", image)
    return options.model_copy(update=changed)


def _samples(options: LatentsData, random: np.random.Generator, count: int) -> Samples:
    """Values from which a network sees standard normal ones."""
    shape = (count, options.channels, options.image_size, options.image_size)
    scale, shift = (_per_channel(value, default) for value, default in ((options.scale, 1.0), (options.shift, 0.0)))

    def values() -> Values:
        normal = random.standard_normal(shape, dtype=np.float32)
        if options.already_scaled:
            return normal
        mean = normal / scale + shift
        if not options.has_moments:
            return mean
        std = np.broadcast_to(_STD / scale, shape)
        spread = std if options.quantity == "mean_std" else 2 * np.log(std)
        return np.concatenate([mean, spread.astype(np.float32)], axis=1)

    return Samples(values(), values(), np.arange(count) % max(1, options.num_classes))


def _per_channel(value: object, default: float) -> NDArray[np.float32]:
    """(C, 1, 1) or a number; what is in a file becomes one that leaves values as they are."""
    number = default if value is None or isinstance(value, str) else value
    return np.array(number, dtype=np.float32).reshape(-1, 1, 1)


# ---- writers: (options, folder, samples) -> names of the samples' files, where they have their own


def write_safetensors(options: LatentsData, folder: Path, samples: Samples) -> list[str]:
    key = "moments" if options.has_moments else "latents"
    tensors: dict[str, NDArray[Any]] = {key: samples.values, "labels": samples.labels}
    if options.flips == "pair":
        tensors[f"{key}_flip"] = samples.mirrored
    if options.text_shape is not None:
        each = [random_captions(number) for number in range(len(samples.labels))]
        contents = [caption.encode() for captions in each for caption in captions]
        tensors |= {
            TEXT: _features(options, len(contents)),
            EMPTY_TEXT: _features(options, 1)[0],
            COUNTS: np.array([len(captions) for captions in each]),
            CAPTIONS: np.frombuffer(b"".join(contents), dtype=np.uint8),
            CAPTION_BYTES: np.array([len(content) for content in contents]),
        }
    save_file(tensors, folder / "latents-00000.safetensors")
    return []


def write_tar(options: LatentsData, folder: Path, samples: Samples) -> list[str]:
    with tarfile.open(folder / "train-0000.tar", "w") as shard:
        for i, (value, label) in enumerate(zip(samples.values, samples.labels, strict=True)):
            for name, content in ((f"{i:07d}.cls", b"%d" % label), (f"{i:07d}.latent.npy", _npy(value))):
                _add(shard, name, content)
    return []


def write_listed(options: LatentsData, folder: Path, samples: Samples) -> list[str]:
    names = [f"{i // 1000:05d}/img-mean-std-{i:08d}.npy" for i in range(len(samples.labels))]
    for name, value in zip(names, samples.values, strict=True):
        _write(folder / name, _npy(value))
    labels = list(zip(names, samples.labels.tolist(), strict=True)) if options.num_classes else None
    _write(folder / "dataset.json", json.dumps({"labels": labels}).encode())
    return names


def write_numbered(options: LatentsData, folder: Path, samples: Samples) -> list[str]:
    for i, (value, label) in enumerate(zip(samples.values, samples.labels, strict=True)):
        _write(folder / "imagenet_features" / f"{i}.npy", _npy(value[None]))
        _write(folder / "imagenet_labels" / f"{i}.npy", _npy(label[None]))
    return []


def write_lmdb(options: LatentsData, folder: Path, samples: Samples) -> list[str]:
    size = 4 * samples.values.nbytes + 2**24
    with lmdb_package().open(str(folder), map_size=size) as database, database.begin(write=True) as write:
        for i, (value, label) in enumerate(zip(samples.values, samples.labels, strict=True)):
            write.put(b"z-%d" % i, value.tobytes())
            write.put(b"y-%d" % i, b"%d" % label)
        write.put(b"length", b"%d" % len(samples.labels))
    return []


def write_coco(options: LatentsData, folder: Path, samples: Samples) -> list[str]:
    for i, value in enumerate(samples.values):
        _write(folder / f"{i}.npy", _npy(value))
        for k, features in enumerate(_features(options, 2)):
            _write(folder / f"{i}_{k}.npy", _npy(features))
    _write(folder.parent / options.about.empty_text_beside, _npy(_features(options, 1)[0]))
    return []


def _features(options: LatentsData, count: int) -> Values:
    """(count, M, E), of the width and size of those of captions."""
    tokens, width = options.text_shape or (1, 1)
    return np.random.default_rng(1).standard_normal((count, tokens, width), dtype=np.float32)


def _add(shard: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    shard.addfile(member, io.BytesIO(content))


def _npy(value: NDArray[Any]) -> bytes:
    stream = io.BytesIO()
    np.save(stream, value)
    return stream.getvalue()


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


# ---- decoder and images


def _write_decoder(options: LatentsData, path: Path) -> Path:
    """A convolution and an enlargement, with weights of its own."""
    side = options.decoded_size
    decoder = torch.nn.Sequential(
        torch.nn.Conv2d(options.channels, 3, 1), torch.nn.Upsample(size=(side, side)), torch.nn.Tanh()
    )
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in decoder.parameters():
            parameter.normal_(std=0.1, generator=generator)
    latents = torch.zeros(_DECODED, options.channels, options.image_size, options.image_size)
    torch.export.save(torch.export.export(decoder.eval(), (latents,)), path)
    return path
