"""Tiny sets of latents, written as the peers' own scripts write them, and what their loaders make of them.

`Peer.write` follows the script that stores latents, `Peer.batch` the line that a training script feeds its network.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

CHANNELS, SIDE, CLASSES = 4, 4, 3
SHAPE = (CHANNELS, SIDE, SIDE)
RAW_STD = 5.5  # about that of SD-VAE's latents


@dataclass(frozen=True)
class Content:
    """Random latents and labels, and their mirrored images' latents."""

    mean: np.ndarray
    std: np.ndarray
    mean_flip: np.ndarray
    labels: np.ndarray

    @classmethod
    def of(cls, seed: int, count: int) -> Content:
        random = np.random.default_rng(seed)
        mean, mean_flip = (RAW_STD * random.normal(size=(count, *SHAPE)).astype(np.float32) for _ in range(2))
        std = random.uniform(0.01, 0.5, size=(count, *SHAPE)).astype(np.float32)
        return cls(mean, std, mean_flip, np.arange(count) % CLASSES)

    @property
    def logvar(self) -> np.ndarray:
        return 2 * np.log(self.std)

    def moments(self, flipped: bool = False) -> np.ndarray:
        return np.concatenate([self.mean_flip if flipped else self.mean, self.logvar], axis=1)


Batch = Callable[[Content, np.ndarray, np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Peer:
    """A layout.

    Args:
        write: (folder, content) -> settings of `data` beside train and held_out.
        batch: (content, samples, noise, whether mirrored) -> what the peer's network sees.
        entry: what a suite names, below the folder.
        by_name: samples are in the order of their numbers as texts: 0, 1, 10, 2, ...
    """

    write: Callable[[Path, Content], dict[str, Any]]
    batch: Batch
    entry: str = ""
    by_name: bool = False

    def order(self, count: int) -> np.ndarray:
        """The sample that is stored at each place."""
        return np.array(sorted(range(count), key=str if self.by_name else int))


def npy(array: Any) -> bytes:
    """The content of an .npy file."""
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=True)
    return stream.getvalue()


def add_members(shard: Path, members: dict[str, bytes]) -> None:
    """Append files to a tar shard, which is made if there is none."""
    with tarfile.open(shard, "a") as tar:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))


def write_npy_listed(folder: Path, values: np.ndarray, labels: np.ndarray) -> None:
    """EDM2's and REPA's dataset_tools: a folder of 1,000 files each, and dataset.json."""
    (folder / "00000").mkdir()
    names = [f"00000/img-mean-std-{i:08d}.npy" for i in range(len(labels))]
    for name, value in zip(names, values, strict=True):
        np.save(folder / name, value)
    listed = [*zip(names, labels.tolist(), strict=True)]
    (folder / "dataset.json").write_text(json.dumps({"labels": listed}))


def write_repa(folder: Path, content: Content) -> dict[str, Any]:
    write_npy_listed(folder, np.concatenate([content.mean, content.std], axis=1), content.labels)
    return {}


def from_logvar(moments: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """A sample of the posterior, as every peer that stores log-variances draws it."""
    mean, logvar = np.split(moments, 2, axis=1)
    return mean + np.exp(0.5 * np.clip(logvar, -30, 20)) * noise


def repa_batch(content: Content, at: np.ndarray, noise: np.ndarray, flipped: np.ndarray) -> np.ndarray:
    return (content.mean[at] + content.std[at] * noise) * 0.18215  # REPA train.py, sample_posterior


def edm2_batch(content: Content, at: np.ndarray, noise: np.ndarray, flipped: np.ndarray) -> np.ndarray:
    """EDM2's StabilityVAEEncoder.encode_latents."""
    raw_mean, raw_std = (np.array(v)[:, None, None] for v in ([5.81, 3.25, 0.12, -2.15], [4.17, 4.62, 3.71, 3.28]))
    scale = 0.5 / raw_std
    return (content.mean[at] + content.std[at] * noise) * scale + (0 - raw_mean * scale)


def write_sr_dit(folder: Path, content: Content) -> dict[str, Any]:
    write_npy_listed(folder, content.mean / RAW_STD / 0.3099, content.labels)
    return {}


def sr_dit_batch(content: Content, at: np.ndarray, noise: np.ndarray, flipped: np.ndarray) -> np.ndarray:
    return content.mean[at] / RAW_STD / 0.3099 * 0.3099


def write_tread(folder: Path, content: Content) -> dict[str, Any]:
    """WebDataset's TarWriter: KEY.cls and KEY.latent.npy, two shards."""
    for shard, part in enumerate(np.array_split(np.arange(len(content.labels)), 2)):
        members = {}
        for i in part.tolist():
            members[f"{i:07d}.cls"] = str(content.labels[i]).encode()
            members[f"{i:07d}.latent.npy"] = npy(content.mean[i] * 0.18215)
        add_members(folder / f"imagenet-train-{shard:04d}.tar", members)
    return {}


def scaled_sample(content: Content, at: np.ndarray, noise: np.ndarray, flipped: np.ndarray) -> np.ndarray:
    return content.mean[at] * 0.18215


def write_lightningdit(folder: Path, content: Content) -> dict[str, Any]:
    """extract_features.py, two shards; the statistics of ImgLatentDataset."""
    for shard, part in enumerate(np.array_split(np.arange(len(content.labels)), 2)):
        tensors = {
            "latents": torch.from_numpy(content.mean[part]),
            "latents_flip": torch.from_numpy(content.mean_flip[part]),
            "labels": torch.from_numpy(content.labels[part]),
        }
        about = {"total_size": str(len(part)), "dtype": "torch.float32", "device": "cpu"}
        save_file(tensors, folder / f"latents_rank00_shard{shard:03d}.safetensors", about)
    latents = torch.from_numpy(content.mean)
    statistics = {"mean": latents.mean((0, 2, 3), keepdim=True), "std": latents.std((0, 2, 3), keepdim=True)}
    torch.save(statistics, folder / "latents_stats.pt")
    return {}


def lightningdit_batch(content: Content, at: np.ndarray, noise: np.ndarray, flipped: np.ndarray) -> np.ndarray:
    latents = torch.from_numpy(content.mean)
    mean, std = latents.mean((0, 2, 3), keepdim=True).numpy(), latents.std((0, 2, 3), keepdim=True).numpy()
    drawn = np.where(flipped[:, None, None, None], content.mean_flip[at], content.mean[at])
    return (drawn - mean) / std


def mar_batch(content: Content, at: np.ndarray, noise: np.ndarray, flipped: np.ndarray) -> np.ndarray:
    moments = np.where(flipped[:, None, None, None], content.moments(flipped=True)[at], content.moments()[at])
    return from_logvar(moments, noise) * 0.2325


def write_fast_dit(folder: Path, content: Content) -> dict[str, Any]:
    """fast-DiT's extract_features.py: numbered files of batches of one."""
    for name in ("features", "labels"):
        (folder / f"imagenet256_{name}").mkdir()
    for i, label in enumerate(content.labels):
        np.save(folder / f"imagenet256_features/{i}.npy", content.mean[i : i + 1] * np.float32(0.18215))
        np.save(folder / f"imagenet256_labels/{i}.npy", np.array([label]))
    return {}


def opened_lmdb(folder: Path) -> Any:
    """A database to write to; the test is skipped without the package."""
    lmdb = pytest.importorskip("lmdb", reason="lmdb is not installed (extra lmdb)")
    return lmdb.open(str(folder), map_size=2**26)


def write_maskdit(folder: Path, content: Content) -> dict[str, Any]:
    """MaskDiT's extract_latent.py."""
    moments = content.moments()
    with opened_lmdb(folder / "train") as database, database.begin(write=True) as write:
        for i, label in enumerate(content.labels):
            write.put(f"z-{i}".encode(), moments[i].tobytes())
            write.put(f"y-{i}".encode(), str(label).encode())
        write.put(b"length", str(len(content.labels)).encode())
    return {}


def maskdit_batch(content: Content, at: np.ndarray, noise: np.ndarray, flipped: np.ndarray) -> np.ndarray:
    return from_logvar(content.moments()[at], noise) * 0.18215


def write_own(folder: Path, content: Content) -> dict[str, Any]:
    """This project's moments in pairs."""
    tensors = {
        "moments": torch.from_numpy(content.moments()),
        "moments_flip": torch.from_numpy(content.moments(flipped=True)),
        "labels": torch.from_numpy(content.labels),
    }
    save_file(tensors, folder / "latents-00000.safetensors")
    return {"quantity": "mean_logvar", "flips": "pair", "scale": 0.2325}


PEERS = {
    "tread-wds": Peer(write_tread, scaled_sample),
    "repa": Peer(write_repa, repa_batch),
    "edm2": Peer(write_repa, edm2_batch),
    "sr-dit": Peer(write_sr_dit, sr_dit_batch),
    "lightningdit": Peer(write_lightningdit, lightningdit_batch),
    "fast-dit": Peer(write_fast_dit, scaled_sample, by_name=True),
    "maskdit-lmdb": Peer(write_maskdit, maskdit_batch, entry="train"),
    "safetensors": Peer(write_own, mar_batch),
}


def written(layout: str, folder: Path, seed: int = 0, count: int = 11) -> tuple[dict[str, Any], Content]:
    """Settings of `data` for a new set, used for training and held-out samples alike, and what it holds."""
    folder.mkdir(parents=True)
    peer, content = PEERS[layout], Content.of(seed, count)
    own = peer.write(folder, content)
    sizes = {"image_size": SIDE, "channels": CHANNELS, "num_classes": CLASSES}
    entry = str(folder / peer.entry) if peer.entry else str(folder)
    return {"layout": layout, "train": [entry], "held_out": [entry], **sizes, **own}, content
