"""Whatever is wrong with a set on disk is one message with file and member, before memory is spent on it."""

from __future__ import annotations

import os
import pickle
import re
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from tests.measure.sets.test_samples import images, write_png
from tread_bench.core.errors import UserError
from tread_bench.measure.sets.reference import open_reference
from tread_bench.measure.sets.samples import open_samples


def head(shape: tuple[int, ...], dtype: str = "|u1") -> bytes:
    """Header of an .npy file."""
    text = repr({"descr": dtype, "fortran_order": False, "shape": shape}).encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def member(name: str, content: bytes, method: int = zipfile.ZIP_STORED):
    def write(path: Path) -> None:
        with zipfile.ZipFile(path, "w", method) as archive:
            archive.writestr(f"{name}.npy", content)

    return write


def arrays(**values):
    return lambda path: np.savez(path, **values)


def cut(share: float):
    def write(path: Path) -> None:
        np.savez(path, arr_0=images(200))
        path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])

    return write


def damaged(path: Path) -> None:
    """A byte of the pixels is another one."""
    np.savez(path, arr_0=images(200))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def damaged_stream(path: Path) -> None:
    np.savez_compressed(path, arr_0=images(200))
    content = bytearray(path.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 64] = bytes(64)
    path.write_bytes(content)


def declaring(bytes_of: Callable[[int], int]):
    """An archive of black images whose list of members declares another size than that of their array."""

    def write(path: Path) -> None:
        np.savez_compressed(path, arr_0=np.zeros((1000, 32, 32, 3), dtype=np.uint8))
        with zipfile.ZipFile(path) as archive:
            size = archive.getinfo("arr_0.npy").file_size
        path.write_bytes(path.read_bytes().replace(struct.pack("<I", size), struct.pack("<I", bytes_of(size))))

    return write


def an_npy_file(path: Path) -> None:
    with path.open("wb") as file:
        np.save(file, images())


NPZ = {
    "an .npy file": (an_npy_file, "not an .npz archive"),
    "a text": (lambda path: path.write_text("images"), "not an .npz archive"),
    "an empty file": (lambda path: path.touch(), "not an .npz archive"),
    "a pickle": (lambda path: path.write_bytes(pickle.dumps({"a": 1})), "holds Python objects"),
    "cut in front": (cut(0.3), "a damaged .npz archive, or one that was cut short"),
    "cut at the end": (cut(0.99), "a damaged .npz archive, or one that was cut short"),
    "pickled images": (arrays(arr_0=np.array([{}], dtype=object)), "arr_0 holds Python objects"),
    "floats": (arrays(arr_0=images() / 255), r"arr_0 is float64 of shape \(11, 6, 5, 3\); images are arr_0, uint8"),
    "one image": (arrays(arr_0=images()[0]), "images are arr_0, uint8 of shape"),
    "channels first": (arrays(arr_0=images().transpose(0, 3, 1, 2).copy()), "channels first"),
    "an alpha channel": (arrays(arr_0=images(channels=4)), "C 1 or 3"),
    "Fortran order": (arrays(arr_0=np.asfortranarray(images())), "in Fortran order"),
    "no images": (arrays(arr_0=images(0)), "no images"),
    "no pixels": (arrays(arr_0=images(3, (0, 5))), "images of 5x0 pixels"),
    "huge images": (member("arr_0", head((1, 10**9, 10**9, 3))), "bytes where its header declares"),
    "large images": (arrays(arr_0=images(1, (5000, 2))), "a side has 1 to 4,096"),
    "fewer bytes than declared": (member("arr_0", head((50_000, 512, 512, 3))), "declares 39,321,600,0"),
    "another size than that of its array": (declaring(lambda size: size - 1), "bytes where its header declares"),
    "a negative shape": (member("arr_0", head((-1, 8, 8, 3))), "a NumPy header with the shape"),
    "no header": (member("arr_0", b"images" * 9), "not a NumPy array"),
    "a header without end": (member("arr_0", b"\x93NUMPY\x02\x00\xff\xff\xff\x7f" + bytes(99)), "and none needs"),
    "code in the header": (member("arr_0", head(("__import__('os').abort()",))), "not a readable NumPy header"),
    "a zip bomb": (declaring(lambda size: 3 * 2**30), "arr_0 has 3,221,225,472 bytes where its header declares"),
    "labels of another count": (arrays(arr_0=images(), arr_1=np.arange(3)), "arr_1 has 3 labels for 11 images"),
    "negative labels": (arrays(arr_0=images(), arr_1=np.arange(11) - 1), "label -1 of image 0"),
    "huge labels": (
        arrays(arr_0=images(), arr_1=np.full(11, 2**64 - 1, dtype=np.uint64)),
        "label 18446744073709551615",
    ),
    "labels in a table": (arrays(arr_0=images(), labels=np.zeros((11, 1), dtype=int)), r"shape \(11, 1\); labels are"),
    "pickled labels": (arrays(arr_0=images(), arr_1=np.array([{}], dtype=object)), "arr_1 holds Python objects"),
}


@pytest.mark.parametrize("kind", NPZ)
@pytest.mark.parametrize("open_set", [open_samples, open_reference])
def test_an_npz_file_that_cannot_be_used_is_one_message(tmp_path, kind, open_set):
    write, message = NPZ[kind]
    path = tmp_path / "set.npz"
    write(path)
    with pytest.raises(UserError, match=message) as raised:
        open_set(path)
    assert str(raised.value).startswith(f"{path}: ") and "\n" not in str(raised.value)


READ = {
    "a damaged image": (damaged, "arr_0 cannot be read.*CRC"),
    "a damaged stream": (damaged_stream, "arr_0 cannot be read"),
}


@pytest.mark.parametrize("kind", READ)
def test_damaged_pixels_are_found_when_they_are_read(tmp_path, kind):
    write, message = READ[kind]
    write(tmp_path / "set.npz")
    with pytest.raises(UserError, match=message):
        [*open_samples(tmp_path / "set.npz").batches(8)]


@pytest.mark.parametrize(("written", "has"), [({}, "nothing"), ({"x": images(), "y": images()}, "x, y")])
def test_a_file_without_images_says_what_it_has(tmp_path, written, has):
    np.savez(tmp_path / "set.npz", **written)
    with pytest.raises(UserError, match=re.escape(f"no array arr_0 in it (it has {has})")):
        open_samples(tmp_path / "set.npz")
    with pytest.raises(UserError, match=f"holds {has}; a reference holds mu_dinov2 and sigma_dinov2, mu and"):
        open_reference(tmp_path / "set.npz")


def test_nothing_but_a_file_is_waited_for(tmp_path):
    os.mkfifo(tmp_path / "set.npz")
    for path in (tmp_path / "set.npz", "/dev/zero"):
        with pytest.raises(UserError, match="not a file"):
            open_samples(path)
    with pytest.raises(UserError, match=r"none\.npz cannot be read \(No such file"):
        open_samples(tmp_path / "none.npz")


def test_all_mistakes_are_reported_at_once(tmp_path):
    np.savez(tmp_path / "set.npz", arr_0=images().astype(np.float32), arr_1=np.arange(3))
    (tmp_path / "labels.npy").write_text("0 1 2")
    with pytest.raises(UserError) as raised:
        open_samples(tmp_path / "set.npz", labels=tmp_path / "labels.npy")
    lines = str(raised.value).splitlines()
    assert len(lines) == 3
    for line, part in zip(lines, ("arr_0 is float32", "arr_1 has 3 labels", "labels.npy: not a NumPy"), strict=True):
        assert part in line


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_flipped_bytes_are_a_message_or_make_no_difference(tmp_path, save):
    generator = np.random.default_rng(0)
    path = tmp_path / "set.npz"
    save(path, arr_0=images(5), arr_1=np.arange(5), mu=np.zeros(3), sigma=np.eye(3), num_images=np.array(9))
    content, messages = path.read_bytes(), []
    for number in range(150):
        changed = bytearray(content)
        changed[generator.integers(len(changed))] ^= generator.integers(1, 256)
        path.write_bytes(changed[: generator.integers(len(changed))] if number % 5 == 0 else changed)
        try:
            found = open_reference(path)
            read = torch.cat([*found.images.batches(2)]) if found.images else None
        except UserError as error:
            messages += str(error).splitlines()
        else:
            assert read is None or np.array_equal(read.permute(0, 2, 3, 1), images(5))
    assert len(messages) > 75
    assert all(line.startswith(str(path)) and len(line) < 600 for line in messages)


# Folders


def png_bomb() -> bytes:
    """100 bytes that declare ten billion pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    size = struct.pack(">IIBBBBB", 100_000, 100_000, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


def saved(mode: str, kind: str = "PNG"):
    def write(path: Path) -> None:
        Image.fromarray(images(1)[0]).convert(mode).save(path, kind)

    return write


def as_text(path: Path) -> None:
    path.write_text("not an image")


FOLDERS = {
    "a text": (as_text, "00003.png: not a readable image"),
    "a script": (lambda path: path.write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n"), "not a readable"),
    "an empty file": (lambda path: path.touch(), "not a readable image"),
    "a bomb": (lambda path: path.write_bytes(png_bomb()), "00003.png: (not a readable image|.*a side has at most)"),
    "another size": (lambda path: write_png(path, images(1, (8, 8))[0]), "8x8 pixels where 00000.png is colour, 5x6"),
    "an alpha channel": (saved("RGBA"), "00003.png: image mode RGBA"),
    "16 bits": (lambda path: Image.fromarray(images(1)[0, ..., 0].astype(np.uint16)).save(path), "image mode I;16"),
    "a pipe": (os.mkfifo, "00003.png: a link to nothing, a device or a pipe"),
    "a link to nothing": (lambda path: path.symlink_to("nothing"), "00003.png: a link to nothing"),
    "a link to itself": (lambda path: path.symlink_to(path.name), "00003.png cannot be read"),
    "a loop of folders": (lambda path: path.symlink_to(path.parent), "a link to a folder that contains it"),
    "an image in a class folder": (
        lambda path: write_png(path.parent / "a" / "0.png", images(1)[0]),
        "no class folder",
    ),
    "a JPEG": (lambda path: saved("RGB", "JPEG")(path.with_suffix(".jpg")), "00003.jpg: samples are PNG files"),
}


@pytest.mark.parametrize("kind", FOLDERS)
def test_a_folder_with_something_wrong_in_it_is_one_message(tmp_path, kind):
    write, message = FOLDERS[kind]
    folder = tmp_path / "set"
    for number, image in enumerate(images(3)):
        write_png(folder / f"{number:05d}.png", image)
    write(folder / "00003.png")
    with pytest.raises(UserError, match=message) as raised:
        open_samples(folder)
    assert "\n" not in str(raised.value)


def test_pixels_that_were_cut_off_are_found_when_they_are_read(tmp_path):
    write_png(tmp_path / "set" / "0.png", images(1, (64, 64))[0])
    path = tmp_path / "set" / "0.png"
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])  # a valid header and half of the pixels
    with pytest.raises(UserError, match=r"0\.png: not a readable image"):
        [*open_samples(tmp_path / "set").batches(8)]


def test_a_folder_without_images_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("none")
    with pytest.raises(UserError, match=r"no image files \(\.png\)"):
        open_samples(tmp_path)


def test_many_wrong_images_are_named_and_counted(tmp_path):
    for number in range(20):
        write_png(tmp_path / f"{number:05d}.png", images(1, (6, 5) if number < 12 else (7, 7))[0])
    with pytest.raises(UserError) as raised:
        open_samples(tmp_path)
    lines = str(raised.value).splitlines()
    assert [Path(line.split(":")[0]).name for line in lines[:3]] == ["00012.png", "00013.png", "00014.png"]
    assert lines[3] == f"{tmp_path}/: 8 of 20 images cannot be used; the first 3 are named"
