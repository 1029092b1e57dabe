"""Pickled latents: what their authors write is converted exactly, and anything else in a pickle is refused unrun."""

from __future__ import annotations

import io
import os
import pickle
import sys
import tarfile
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import yaml

from tests.data.latent_layouts import CHANNELS, CLASSES, SHAPE, SIDE, Content, maskdit_batch
from tread_bench.cli.app import app
from tread_bench.core.errors import UserError
from tread_bench.core.latent_manifest import Flips
from tread_bench.data.check import data_problems
from tread_bench.data.latents.family import LatentsData
from tread_bench.data.latents.pickled import convert
from tread_bench.data.latents.source import drawn_noise
from tread_bench.data.open import open_data

CONTENT = Content.of(0, 11)
MOMENTS = CONTENT.moments()


def shard(path: Path, members: dict[str, bytes]) -> None:
    with tarfile.open(path, "w") as tar:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))


def write_maskdit(folder: Path, protocol: int = 4) -> None:
    """MaskDiT's lmdb2wds.py: pickle.dumps of an array, and the class as WebDataset writes numbers."""
    for number, part in enumerate(np.array_split(np.arange(11), 2)):
        members: dict[str, bytes] = {}
        for i in part.tolist():
            members[f"{i:07d}.cls"] = str(CONTENT.labels[i]).encode()
            members[f"{i:07d}.latent"] = pickle.dumps(MOMENTS[i], protocol)
        shard(folder / f"latent_imagenet_512_train-{number:04d}.tar", members)


def write_uvit(folder: Path, protocol: int = 3) -> None:
    """U-ViT's extract_imagenet_feature.py: numpy.save of a tuple of an array and a class."""
    for i in range(11):
        pair = np.empty(2, dtype=object)
        pair[0], pair[1] = MOMENTS[i], CONTENT.labels[i]
        np.save(folder / f"{i}.npy", pair, allow_pickle=True)


WRITERS = {"maskdit-wds": write_maskdit, "u-vit": write_uvit}


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("layout", WRITERS)
def test_what_is_converted_is_read_as_its_authors_read_it(layout: str, protocol: int, tmp_path: Path) -> None:
    (tmp_path / "pickled").mkdir()
    WRITERS[layout](tmp_path / "pickled", protocol)
    flips = "appended" if layout == "u-vit" else "none"
    manifest = convert(tmp_path / "pickled", layout, tmp_path / "new", CLASSES)
    assert (manifest.count, manifest.shape, manifest.num_classes, manifest.flips) == (11, SHAPE, CLASSES, flips)
    entry = (str(tmp_path / "new"),)
    choice = LatentsData(name="latents", train=entry, held_out=entry)
    assert (choice.quantity, choice.channels, choice.image_size) == ("mean_logvar", CHANNELS, SIDE)
    assert data_problems([(choice, False)], reads_everything=True) == []
    train, index = open_data(choice).train, np.array([10, 0, 4])
    noise = drawn_noise(0, 7, 3, SHAPE)
    expected = maskdit_batch(CONTENT, index, noise, np.zeros(3, dtype=bool))
    np.testing.assert_allclose(train.drawn(index, 0, 7).numpy(), expected, rtol=2e-5, atol=2e-6)
    assert train.labels(index).tolist() == CONTENT.labels[index].tolist()


class Runs:
    """Makes a folder when it is unpickled."""

    def __init__(self, function: Any, *values: Any) -> None:
        self.call = (function, values)

    def __reduce__(self) -> Any:
        return self.call


def hostile(folder: Path) -> dict[str, bytes]:
    made = str(folder / "made")
    return {
        "code": pickle.dumps(Runs(os.mkdir, made)),
        "code in a list": pickle.dumps([MOMENTS[0], Runs(os.mkdir, made)]),
        "an array made whole": pickle.dumps(Runs(np.ndarray, (2**20, 2**20))),
        "objects": pickle.dumps(np.array([Runs(os.mkdir, made)], dtype=object)),
        "a list": pickle.dumps([1, 2]),
        "a number": pickle.dumps(3),
        "text": pickle.dumps(np.array(["a"])),
        "integers": pickle.dumps(np.zeros(SHAPE, np.int64)),
        "whole numbers of classes": pickle.dumps([MOMENTS[0], np.zeros(SHAPE, np.int64)]),
        "a class as int32": pickle.dumps([MOMENTS[0], np.int32(1)]),
        "a class as float64": pickle.dumps([MOMENTS[0], np.float64(1)]),
        "a class alone": pickle.dumps(np.int64(1)),
        "a class of 12 bytes": pickle.dumps(Runs(np.int64(1).__reduce__()[0], np.dtype("i8"), b"\1" * 12), 2),
        "a class of no type": b"\x80\x02cnumpy.core.multiarray\nscalar\nK\x01K\x01\x86R.",
        "a vector": pickle.dumps(np.zeros(8, np.float32)),
        "odd channels": pickle.dumps(np.zeros((7, 4, 4), np.float32)),
        "too large": pickle.dumps(np.full(SHAPE, 1e300)),
        "infinite": pickle.dumps(np.full_like(MOMENTS[0], np.inf)),
        "big endian": pickle.dumps(MOMENTS[0].astype(">f4")),
        "fortran": pickle.dumps(np.asfortranarray(MOMENTS[0])),
        "cut": pickle.dumps(MOMENTS[0])[:-40],
        "nothing": b"",
        "a huge memo": b"\x80\x02]r\xff\xff\xff\x7f.",
        "a changed function": b"\x80\x02cnumpy\ndtype\n}U\x01aK\x01sb.",
        "a module": b"cos\nsystem\n(S'exit 1'\ntR.",
        "an attribute of one allowed": b"cnumpy\nndarray.tofile\n.",
    }


@pytest.mark.parametrize("name", hostile(Path("none")))
@pytest.mark.parametrize("layout", WRITERS)
def test_a_pickle_of_anything_else_is_refused_with_file_and_key(layout: str, name: str, tmp_path: Path) -> None:
    content = hostile(tmp_path)[name]
    source = tmp_path / "pickled"
    source.mkdir()
    if layout == "maskdit-wds":
        shard(source / "a.tar", {"0000007.cls": b"1", "0000007.latent": content})
    else:
        head = io.BytesIO()
        np.lib.format.write_array_header_1_0(head, {"descr": "|O", "fortran_order": False, "shape": (2,)})
        (source / "7.npy").write_bytes(head.getvalue() + content)
    with pytest.raises(UserError, match=r"a\.tar: 0000007: |7\.npy: "):
        convert(source, layout, tmp_path / "new", CLASSES)
    assert not (tmp_path / "made").exists()
    assert not list((tmp_path / "new").glob("*"))


def test_samples_of_two_shapes_and_lost_classes_are_refused(tmp_path: Path) -> None:
    source = tmp_path / "pickled"
    source.mkdir()
    first, other = pickle.dumps(MOMENTS[0]), pickle.dumps(MOMENTS[0][:, :2].copy())
    shard(source / "a.tar", {"1.cls": b"1", "1.latent": first, "2.cls": b"1", "2.latent": other})
    with pytest.raises(UserError, match=r"a\.tar: 2: moments of shape \(8, 2, 4\): expected shape \(8, 4, 4\)"):
        convert(source, "maskdit-wds", tmp_path / "new", CLASSES)
    shard(source / "a.tar", {"1.cls": b"cat", "1.latent": first})
    with pytest.raises(UserError, match=r"1\.cls is b'cat', and must be a number in ASCII"):
        convert(source, "maskdit-wds", tmp_path / "new", CLASSES)
    shard(source / "a.tar", {"1.latent": first})
    with pytest.raises(UserError, match="1 has latent alone"):
        convert(source, "maskdit-wds", tmp_path / "new", CLASSES)


def write_class(layout: str, source: Path, label: int) -> None:
    """One sample of that class."""
    source.mkdir()
    if layout == "maskdit-wds":
        shard(source / "a.tar", {"7.cls": b"%d" % label, "7.latent": pickle.dumps(MOMENTS[0])})
    else:
        pair = np.empty(2, dtype=object)
        pair[0], pair[1] = MOMENTS[0], label
        np.save(source / "7.npy", pair, allow_pickle=True)


@pytest.mark.parametrize(
    "label", [CLASSES, -1, 2**63, 10**18, 10**30, 10**5000], ids=lambda n: f"{n.bit_length()} bits"
)
@pytest.mark.parametrize("layout", WRITERS)
def test_a_class_that_the_data_set_does_not_have_is_refused(layout: str, label: int, tmp_path: Path) -> None:
    sys.set_int_max_str_digits(0)
    try:
        write_class(layout, tmp_path / "pickled", label)
    finally:
        sys.set_int_max_str_digits(sys.int_info.default_max_str_digits)
    with pytest.raises(UserError, match=r"(a\.tar: 7|7\.npy).*( allows 0 to 2|must be a (whole )?number)"):
        convert(tmp_path / "pickled", layout, tmp_path / "new", CLASSES)


@pytest.mark.parametrize("layout", WRITERS)
def test_a_folder_without_the_last_class_has_the_classes_of_the_data_set(layout: str, tmp_path: Path) -> None:
    write_class(layout, tmp_path / "pickled", 0)
    assert convert(tmp_path / "pickled", layout, tmp_path / "new", CLASSES).num_classes == CLASSES


@pytest.mark.parametrize("layout", WRITERS)
def test_flips_that_are_stated_win(layout: str, tmp_path: Path) -> None:
    write_class(layout, tmp_path / "pickled", 0)
    for flips in get_args(Flips):
        assert convert(tmp_path / "pickled", layout, tmp_path / flips, CLASSES, flips).flips == flips


def test_nothing_of_the_user_s_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "pickled").mkdir()
    write_uvit(tmp_path / "pickled")
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "mine").touch()
    with pytest.raises(UserError, match="new is not empty; name a new folder"):
        convert(tmp_path / "pickled", "u-vit", tmp_path / "new", CLASSES)
    with pytest.raises(UserError, match="none: no such folder"):
        convert(tmp_path / "none", "u-vit", tmp_path / "other", CLASSES)
    with pytest.raises(UserError, match="--num-classes 10000000000: must be at most 1,000,000,000"):
        convert(tmp_path / "pickled", "u-vit", tmp_path / "other", 10**10)
    assert not (tmp_path / "other").exists()


def test_the_command_says_how_far_it_is_and_prints_the_data_of_a_suite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pickled").mkdir()
    write_uvit(tmp_path / "pickled")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tread_bench.data.latents.pickled._SHARD_SAMPLES", 5)
    app(["convert", "pickled", "--layout", "u-vit", "--num-classes", "3", "--out", "new"], standalone_mode=False)
    text, progress = capsys.readouterr()
    assert progress == "5 samples are converted\n10 samples are converted\n11 samples are converted\n"
    data = yaml.safe_load(text)["data"]
    assert data["train"] == [str(tmp_path / "new")] and "11 samples of 3 classes" in text
    assert open_data(LatentsData(**{**data, "held_out": data["train"]})).train.shape == SHAPE
