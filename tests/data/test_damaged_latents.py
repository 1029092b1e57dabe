"""Damaged and hostile files of every layout are refused, with file and key, before memory is spent on them."""

from __future__ import annotations

import io
import json
import pickle
import re
import struct
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from tests.data.latent_layouts import SHAPE, opened_lmdb, written
from tread_bench.core.errors import UserError
from tread_bench.data.check import data_problems
from tread_bench.data.latents.arrays import npy_array
from tread_bench.data.latents.family import LatentsData
from tread_bench.data.open import open_data


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def cut(path: Path, keep: float = 0.7) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * keep)])


def npy(array: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=True)
    return stream.getvalue()


def header(text: str) -> bytes:
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


def add_to_shard(folder: Path, members: dict[str, bytes]) -> None:
    with tarfile.open(folder / "imagenet-train-0001.tar", "a") as shard:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            shard.addfile(member, io.BytesIO(content))


def zeros_from(path: Path, length: int) -> None:
    path.write_bytes(path.read_bytes()[:-length])


def put(folder: Path, key: bytes, value: bytes | None) -> None:
    with opened_lmdb(folder / "train") as database, database.begin(write=True) as write:
        write.delete(key) if value is None else write.put(key, value)


def packed(path: Path) -> None:
    """The same archive with a member that unpacks to a hundred times its size."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for key in ("moments", "moments_flip"):
            archive.writestr(f"{key}.npy", npy(np.zeros((2 * SHAPE[0], 400, 400), np.float32)))


FIRST = "00000/img-mean-std-00000000.npy"
MOMENTS = (2 * SHAPE[0], *SHAPE[1:])
EMPTY = {
    "moments": np.zeros((0, *MOMENTS), np.float32),
    "moments_flip": np.zeros((0, *MOMENTS), np.float32),
    "labels": np.zeros(0, np.int64),
}
HUGE = "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000, 1000000, 1000000)}"
MAR = "n01440000/n0144_00000.JPEG.npz"
DDT = "n01440000/n0144_00000.JPEG.pt"
Harm = Callable[[Path], object]
DAMAGE: dict[str, tuple[str, Harm, str]] = {
    "repa, cut": ("repa", lambda f: cut(f / FIRST), rf"{FIRST}: array has .* bytes where its header declares"),
    "repa, longer": ("repa", lambda f: (f / FIRST).write_bytes((f / FIRST).read_bytes() + b"0"), "declares 640; copy"),
    "repa, not an array": ("repa", lambda f: (f / FIRST).write_bytes(b"latent"), rf"{FIRST}: array: not a NumPy array"),
    "repa, huge": ("repa", lambda f: (f / FIRST).write_bytes(header(HUGE)), r"of shape \(1000000, 1000000, 1000000\)"),
    "repa, long header": ("repa", lambda f: (f / FIRST).write_bytes(header(" " * 60_000)), "a NumPy header of 60,000"),
    "repa, code in header": (
        "repa",
        lambda f: (f / FIRST).write_bytes(header("exit()")),
        "not a readable NumPy header",
    ),
    "repa, objects": (
        "repa",
        lambda f: (f / FIRST).write_bytes(npy(np.array([{}], dtype=object))),
        "holds Python objects, .*by the lines of docs/methods/latents.md",
    ),
    "repa, integers": (
        "repa",
        lambda f: np.save(f / FIRST, np.zeros(MOMENTS, np.int64)),
        "array is int64; store float32",
    ),
    "repa, samples": (
        "repa",
        lambda f: np.save(f / FIRST, np.zeros(SHAPE, np.float32)),
        "set data.layout: sr-dit",
    ),
    "repa, infinite": (
        "repa",
        lambda f: np.save(f / FIRST, np.full(MOMENTS, np.inf, np.float32)),
        f"{FIRST}: contains NaN",
    ),
    "repa, no labels": ("repa", lambda f: (f / "dataset.json").unlink(), "dataset.json: no such file"),
    "repa, null labels": (
        "repa",
        lambda f: (f / "dataset.json").write_text('{"labels": null}'),
        "set data.num_classes: 0",
    ),
    "repa, deep labels": ("repa", lambda f: (f / "dataset.json").write_text("[" * 10**5), "dataset.json: not JSON"),
    "repa, wrong labels": (
        "repa",
        lambda f: (f / "dataset.json").write_text('{"labels": [1]}'),
        r"list of \[name, number\]",
    ),
    "repa, one label": (
        "repa",
        lambda f: (f / "dataset.json").write_text(json.dumps({"labels": [[FIRST, 0]]})),
        "no label of 00000/img-mean-std-00000001.npy",
    ),
    "repa, label text": (
        "repa",
        lambda f: (f / "dataset.json").write_text((f / "dataset.json").read_text().replace(", 0]", ', "cat"]')),
        "label 'cat' of",
    ),
    "repa, label": (
        "repa",
        lambda f: (f / "dataset.json").write_text((f / "dataset.json").read_text().replace(", 2]", ", 7]")),
        "label 2: 7 where data.num_classes allows 0 to 2",
    ),
    "tread, cut in a member": (
        "tread-wds",
        lambda f: cut(f / "imagenet-train-0001.tar", 0.28),
        "imagenet-train-0001.tar: .*(cut|unexpected end of data)",
    ),
    "tread, cut between members": (
        "tread-wds",
        lambda f: (f / "imagenet-train-0001.tar").write_bytes((f / "imagenet-train-0001.tar").read_bytes()[: 5 * 2048]),
        "0001.tar: the shard has no end",
    ),
    "tread, not a shard": (
        "tread-wds",
        lambda f: (f / "imagenet-train-0001.tar").write_bytes(b"no tar" * 500),
        "0001.tar: not a readable, uncompressed tar",
    ),
    "tread, no class": (
        "tread-wds",
        lambda f: add_to_shard(f, {"0000099.latent.npy": npy(np.zeros(SHAPE, np.float32))}),
        "0001.tar: 0000099 has no .cls",
    ),
    "tread, twice": ("tread-wds", lambda f: add_to_shard(f, {"0000010.cls": b"1"}), "0000010.cls is there twice"),
    "tread, class": (
        "tread-wds",
        lambda f: add_to_shard(f, {"0000099.cls": b"cat"}),
        "0000099.cls is b'cat', and must be a number in ASCII",
    ),
    "tread, huge class": (
        "tread-wds",
        lambda f: add_to_shard(f, {"0000099.cls": b"9223372036854775808"}),
        "0000099.cls is b'9223372036854775808', and must be a number in ASCII of at most 18 digits",
    ),
    "tread, moments": (
        "tread-wds",
        lambda f: add_to_shard(f, {"9.cls": b"1", "9.latent.npy": npy(np.zeros(MOMENTS, np.float32))}),
        "0001.tar: 9.latent.npy of shape .*twice the channels are moments",
    ),
    "tread, pickle": (
        "tread-wds",
        lambda f: add_to_shard(f, {"0000099.latent": pickle.dumps(np.zeros(3)), "0000099.cls": b"1"}),
        "0000099.latent is a pickle, .*by the lines of docs/methods/latents.md",
    ),
    "mar, cut": ("mar", lambda f: cut(f / MAR), f"{MAR}: not a readable .npz archive"),
    "mar, no mirrored": (
        "mar",
        lambda f: np.savez(f / MAR, moments=np.zeros(MOMENTS, np.float32)),
        f"{MAR}: no array 'moments_flip'",
    ),
    "mar, packed": ("mar", lambda f: packed(f / MAR), "compressed; write it with numpy.savez"),
    "mar, a class less": ("mar", lambda f: [p.unlink() for p in (f / "n01440001").iterdir()], "2 class folders where"),
    "mar, no folder": ("mar", lambda f: (f / MAR).rename(f / "0.npz"), "0.npz: not in a class folder"),
    "ddt, cut": ("ddt", lambda f: cut(f / DDT), f"{DDT}: not a torch.save file"),
    "ddt, code": ("ddt", lambda f: torch.save({"mean": print}, f / DDT), f"{DDT}: not a torch.save file that is safe"),
    "ddt, no variance": ("ddt", lambda f: torch.save({"mean": torch.zeros(SHAPE)}, f / DDT), "no tensor 'logvar'"),
    "ddt, shape": ("ddt", lambda f: torch.save({"mean": torch.zeros(3)}, f / DDT), r"mean of shape \(3,\) where"),
    "fast-dit, no label": (
        "fast-dit",
        lambda f: (f / "imagenet256_labels/3.npy").unlink(),
        "imagenet256_labels/3.npy: no such file",
    ),
    "fast-dit, labels": (
        "fast-dit",
        lambda f: np.save(f / "imagenet256_labels/3.npy", np.arange(2)),
        r"labels/3.npy: label of shape \(2,\); expected one number",
    ),
    "lmdb, cut": ("maskdit-lmdb", lambda f: cut(f / "train/data.mdb", 0.4), "data.mdb: .*(cut|not a readable LMDB)"),
    "lmdb, text": ("maskdit-lmdb", lambda f: (f / "train/data.mdb").write_bytes(b"x" * 9999), "not a readable LMDB"),
    "lmdb, length": ("maskdit-lmdb", lambda f: put(f, b"length", b"99999999999"), "length 99999999999 where it has 23"),
    "lmdb, no length": ("maskdit-lmdb", lambda f: put(f, b"length", None), "data.mdb: length is missing"),
    "lmdb, label": ("maskdit-lmdb", lambda f: put(f, b"y-4", b"cat"), "data.mdb: y-4 is b'cat'"),
    "lmdb, short": (
        "maskdit-lmdb",
        lambda f: put(f, b"z-0", b"cat"),
        r"z-0 is 3 bytes, and float32 moments .* are 512",
    ),
    "safetensors, one file empty": (
        "safetensors",
        lambda f: save_file(EMPTY, f / "latents-00001.safetensors"),
        r"latents-00001\.safetensors: no latents; a split needs at least one in each file",
    ),
    "safetensors, cut": (
        "lightningdit",
        lambda f: cut(f / "latents_rank00_shard001.safetensors"),
        "shard001.safetensors: not a readable safetensors file",
    ),
    "statistics, code": (
        "lightningdit",
        lambda f: torch.save(print, f / "latents_stats.pt"),
        "neither a .npy array nor",
    ),
    "statistics, shape": (
        "lightningdit",
        lambda f: torch.save({"mean": torch.zeros(1, 3, 1, 1), "std": torch.ones(1, 3, 1, 1)}, f / "latents_stats.pt"),
        r"of shape \(3, 1, 1\)",
    ),
    "statistics, gone": ("lightningdit", lambda f: (f / "latents_stats.pt").unlink(), "latents_stats.pt"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_it_is_refused_with_file_and_key_and_little_memory(name: str, tmp_path: Path) -> None:
    layout, harm, told = DAMAGE[name]
    settings, _ = written(layout, tmp_path / "set")
    harm(tmp_path / "set")
    tracemalloc.start()
    found = data_problems([(LatentsData(name="latents", **settings), False)])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found and all(re.search(told, message) for message in found), found
    assert all(str(tmp_path) in message for message in found)
    assert peak < 2**26


def test_a_shard_that_was_indexed_and_then_cut_is_refused(tmp_path: Path) -> None:
    settings, _ = written("tread-wds", tmp_path / "set")
    train = open_data(LatentsData(name="latents", **settings)).train
    cut(tmp_path / "set" / "imagenet-train-0001.tar", 0.2)
    with pytest.raises(UserError, match=r"0001\.tar: .*latent\.npy"):
        train.images(np.arange(11))


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY", b"\x93NUMPY\x09\x00\x76\x00" + b" " * 118, header("{}")])
def test_what_is_no_npy_header_is_refused(content: bytes) -> None:
    with pytest.raises(UserError, match=r"^here: array: "):
        npy_array(content, "here", (1,))


def test_class_folders_of_the_splits_must_be_the_same(tmp_path: Path) -> None:
    train, _ = written("dc-ae", tmp_path / "train")
    held_out, _ = written("dc-ae", tmp_path / "held_out")
    (tmp_path / "held_out" / "n01440001").rename(tmp_path / "held_out" / "n01450001")
    choice = LatentsData(name="latents", **{**train, "held_out": held_out["train"]})
    (found,) = data_problems([(choice, False)])
    assert "class folder 'n01440001' is in data.train alone (2 such folders)" in found


def test_a_zip_archive_of_edm2_is_read_as_its_folder(tmp_path: Path) -> None:
    settings, _ = written("edm2", tmp_path / "set")
    archive = tmp_path / "set.zip"
    for compression in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        with zipfile.ZipFile(archive, "w", compression) as file:
            for path in sorted((tmp_path / "set").rglob("*.*")):
                file.write(path, path.relative_to(tmp_path / "set"))
        choice = LatentsData(name="latents", **{**settings, "train": [str(archive)]})
        if compression == zipfile.ZIP_STORED:
            assert data_problems([(choice, False)]) == []
            data, index = open_data(choice), np.arange(11)
            assert torch.equal(data.train.drawn(index, 0, 5), data.held_out.drawn(index, 0, 5))
    (found,) = data_problems([(choice, False)])
    assert "is compressed; write the archive without compression" in found


def test_globs_and_several_folders_are_read_in_their_order(tmp_path: Path) -> None:
    first, _ = written("repa", tmp_path / "a", 0)
    second, _ = written("repa", tmp_path / "b", 1)
    both = LatentsData(name="latents", **{**first, "train": [*first["train"], *second["train"]]})
    starred = LatentsData(name="latents", **{**first, "train": [str(tmp_path / "[ab]")]})
    index = np.array([21, 0, 11, 10])
    expected = open_data(both).train
    assert torch.equal(open_data(starred).train.drawn(index, 0, 0), expected.drawn(index, 0, 0))
    assert expected.labels(index).tolist() == [1, 0, 0, 1]
