"""Damaged and hostile files of every layout are refused, with file and key, before memory is spent on them."""

from __future__ import annotations

import io
import re
import struct
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.data.latent_layouts import SHAPE, add_members, npy, opened_lmdb, written
from tread_bench.core.errors import UserError
from tread_bench.data.check import data_problems
from tread_bench.data.latents.arrays import npy_array
from tread_bench.data.latents.options import LatentsData
from tread_bench.data.source import open_data

Harm = Callable[[Path], object]  # to the folder of a set


def cut(path: Path, keep: float = 0.7) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * keep)])


def header(text: str) -> bytes:
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


def gone(name: str) -> Harm:
    return lambda folder: (folder / name).unlink()


def content(name: str, value: bytes) -> Harm:
    return lambda folder: (folder / name).write_bytes(value)


def first(value: bytes) -> Harm:
    return content(FIRST, value)


def more(members: dict[str, bytes]) -> Harm:
    return lambda folder: add_members(folder / SHARD, members)


def put(key: bytes, value: bytes | None) -> Harm:
    def harm(folder: Path) -> None:
        with opened_lmdb(folder / "train") as database, database.begin(write=True) as write:
            write.delete(key) if value is None else write.put(key, value)

    return harm


FIRST = "00000/img-mean-std-00000000.npy"
SHARD = "imagenet-train-0001.tar"
LABEL = "imagenet256_labels/3.npy"
MOMENTS = (2 * SHAPE[0], *SHAPE[1:])
SAMPLE = npy(np.zeros(SHAPE, np.float32))
ZEROS = np.zeros(MOMENTS, np.float32)
HUGE = header("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000, 1000000, 1000000)}")
TRUSTED = r".*docs/methods/latents\.md"
DAMAGE: dict[str, dict[str, tuple[Harm, str]]] = {
    "repa": {
        "cut": (lambda f: cut(f / FIRST), rf"{FIRST}: array has .* bytes where its header declares"),
        "huge": (first(HUGE), "its header declares 4,000,000,000,000,000,"),
        "objects": (first(npy(np.array([{}], dtype=object))), f"holds Python objects {TRUSTED}"),
        "samples": (first(SAMPLE), "set data.layout: sr-dit"),
        "infinite": (first(npy(np.full(MOMENTS, np.inf, np.float32))), f"{FIRST}: contains NaN"),
        "no labels": (gone("dataset.json"), r"dataset.json cannot be read \(No such file"),
        "null labels": (content("dataset.json", b'{"labels": null}'), "set data.num_classes: 0"),
    },
    "tread-wds": {
        "cut in a member": (lambda f: cut(f / SHARD, 0.28), f"{SHARD}: .*(cut|unexpected end of data)"),
        "cut between members": (lambda f: cut(f / SHARD, 0.5), f"{SHARD}: .*it was cut"),
        "not a shard": (content(SHARD, b"no tar" * 500), f"{SHARD}: not a readable, uncompressed tar"),
        "no latents": (content(SHARD, bytes(10240)), r"a sample is KEY.latent.npy and KEY.cls; .*: no file is either"),
        "no class": (more({"99.latent.npy": SAMPLE}), f"{SHARD}: .*only one of them: 99"),
        "twice": (more({"0000010.cls": b"1"}), "0000010.cls is there twice"),
        "latent twice": (more({"0000010.latent.npy": SAMPLE}), "latent.npy is there twice"),
        "class": (more({"99.cls": b"cat"}), "99.cls is b'cat', and must be a number in ASCII"),
        "moments": (more({"99.cls": b"1", "99.latent.npy": npy(ZEROS)}), "99.latent.npy of shape .*these are moments"),
    },
    "fast-dit": {
        "no label": (gone(LABEL), rf"{LABEL} cannot be read \(No such file"),
        "labels": (content(LABEL, npy(np.arange(2))), r"label of shape \(2,\); expected \(1,\)"),
    },
    "maskdit-lmdb": {
        "cut": (lambda f: cut(f / "train/data.mdb", 0.4), "data.mdb: .*(cut|not a readable LMDB)"),
        "length": (put(b"length", b"99999999999"), "y-11 is b'', and must be a number"),
        "no samples": (put(b"length", b"0"), "data.mdb: no samples in it"),
        "no length": (put(b"length", None), "data.mdb: length is b''"),
        "label": (put(b"y-4", b"cat"), "data.mdb: y-4 is b'cat'"),
        "short": (put(b"z-0", b"cat"), r"z-0 has 3 bytes, and float32 moments .* are 512"),
    },
    "lightningdit": {
        "code": (lambda f: torch.save(breakpoint, f / "latents_stats.pt"), "neither a .npy array nor"),
    },
}


@pytest.mark.parametrize(("layout", "name"), [(layout, name) for layout, rows in DAMAGE.items() for name in rows])
def test_it_is_refused_with_file_and_key_and_little_memory(layout: str, name: str, tmp_path: Path) -> None:
    harm, told = DAMAGE[layout][name]
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


NO_HEADERS = (b"", b"\x93NUMPY", b"\x93NUMPY\x09\x00\x76\x00" + b" " * 118, header("{}"), header("exit()"))


@pytest.mark.parametrize("content", NO_HEADERS)
def test_what_is_no_npy_header_is_refused(content: bytes) -> None:
    with pytest.raises(UserError, match=r"^here: array: "):
        npy_array(content, "here", (1,))


@pytest.mark.parametrize(("packed", "compression"), [("set", zipfile.ZIP_STORED), ("", zipfile.ZIP_DEFLATED)])
def test_a_zip_archive_of_edm2_is_read_as_its_folder(packed: str, compression: int, tmp_path: Path) -> None:
    settings, _ = written("edm2", tmp_path / "mac" / "set")
    (tmp_path / "mac" / "__MACOSX").mkdir()
    (tmp_path / "mac" / "__MACOSX" / "._dataset.json").write_bytes(b"\0\5\x16\7")
    archive = tmp_path / "set.zip"
    with zipfile.ZipFile(archive, "w", compression) as file:
        for path in sorted((tmp_path / "mac" / packed).rglob("*.*")):
            file.write(path, path.relative_to(tmp_path / "mac" / packed))
    choice = LatentsData(name="latents", **{**settings, "train": [str(archive)]})
    assert data_problems([(choice, False)]) == []
    data, index = open_data(choice), np.arange(11)
    assert torch.equal(data.train.drawn(index, 0, 5), data.held_out.drawn(index, 0, 5))

    # An archive that takes its place is read when it is opened again.
    with zipfile.ZipFile(archive) as before, zipfile.ZipFile(tmp_path / "new.zip", "w") as file:
        for name in before.namelist():
            content = before.read(name)
            file.writestr(name, npy(2 * np.load(io.BytesIO(content))) if name.endswith(".npy") else content)
    (tmp_path / "new.zip").replace(archive)
    assert not torch.equal(open_data(choice).train.drawn(index, 0, 5), data.held_out.drawn(index, 0, 5))


def test_keys_may_have_dots(tmp_path: Path) -> None:
    settings, _ = written("tread-wds", tmp_path / "set")
    shard = min((tmp_path / "set").glob("*.tar"))
    names = ["x6", "x6.5", "n01440764_1.JPEG", "a/b.c/1.0", "..d"]
    samples = {f"{name}.latent.npy": npy(np.full(SHAPE, i, "f4")) for i, name in enumerate(names)}
    shard.unlink()
    classes = {f"{name}.cls": b"%d" % (i % 3) for i, name in enumerate(names)}
    add_members(shard, {**samples, **classes, "x6.json": b"{}", "x6.vae.npy": b""})
    choice = LatentsData(name="latents", **{**settings, "train": [str(shard)]})
    data = open_data(choice).train
    assert data.labels(np.arange(4)).tolist() == [0, 1, 2, 0] and len(data) == 4
    assert data.images(np.arange(4))[:, 0, 0, 0].tolist() == [0, 1, 2, 3]
