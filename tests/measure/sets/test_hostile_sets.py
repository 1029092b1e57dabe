"""Whatever is wrong with a set on disk is one message with file and member."""

from __future__ import annotations

import os
import pickle
import struct
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest
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


def cut(path: Path) -> None:
    np.savez(path, arr_0=images(200))
    path.write_bytes(path.read_bytes()[:-100])


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


FORM = "images are uint8 of shape"
DAMAGED = r"not an \.npz archive, or a damaged one"
NPZ = {
    "an .npy file": (lambda path: path.write_bytes(head((1, 8, 8, 3)) + bytes(192)), DAMAGED),
    "an empty file": (lambda path: path.touch(), DAMAGED),
    "a pickle": (lambda path: path.write_bytes(pickle.dumps({"a": 1})), "of a pickle that you trust, store the arrays"),
    "cut at the end": (cut, DAMAGED),
    "other arrays": (arrays(x=images(), y=images()), "no array arr_0 in it; it has x, y"),
    "pickled images": (arrays(arr_0=np.array([{}], dtype=object)), "arr_0 holds Python objects"),
    "floats": (arrays(arr_0=images() / 255), r"arr_0 is float64 of shape \(11, 6, 5, 3\); " + FORM),
    "channels first": (arrays(arr_0=images().transpose(0, 3, 1, 2).copy()), FORM),
    "an alpha channel": (arrays(arr_0=images(channels=4)), "C 1 or 3"),
    "Fortran order": (arrays(arr_0=np.asfortranarray(images())), "in Fortran order"),
    "no images": (arrays(arr_0=images(0)), "n at least 1"),
    "a negative shape": (member("arr_0", head((-1, 8, 8, 3))), "a NumPy header with the shape"),
    "huge images": (member("arr_0", head((1, 10**9, 10**9, 3))), "H and W at most 4096"),
    "no header": (member("arr_0", b"images" * 9), "not a readable NumPy header"),
    "a header without end": (member("arr_0", b"\x93NUMPY\x02\x00\xff\xff\xff\x7f" + bytes(99)), "not a readable NumPy"),
    "code in the header": (member("arr_0", head(("__import__('os').abort()",))), "not a readable NumPy header"),
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
    "a damaged image": damaged,
    "a damaged stream": damaged_stream,
    "fewer bytes than declared": member("arr_0", head((50_000, 512, 512, 3))),
    "more bytes than declared": member("arr_0", head((1, 8, 8, 3)) + bytes(193)),
}


@pytest.mark.parametrize("kind", READ)
def test_damaged_pixels_are_found_when_they_are_read(tmp_path, kind):
    READ[kind](tmp_path / "set.npz")
    with pytest.raises(UserError, match=r"set\.npz: arr_0 cannot be read \(.*\); copy the file again"):
        [*open_samples(tmp_path / "set.npz").batches(8)]


NPY = {
    "a text": (lambda path: path.write_text("images"), "no array that can be read"),
    "cut short": (lambda path: path.write_bytes(head((9, 8, 8, 3)) + bytes(99)), "no array that can be read"),
    "a pickle": (lambda path: np.save(path, np.array([{"a": 1}])), "no array that can be read .*Python objects"),
    "floats": (lambda path: np.save(path, images() / 255), r"is float64 of shape \(11, 6, 5, 3\); " + FORM),
    "a pipe": (os.mkfifo, "it is not a file"),
    "nothing": (lambda path: None, "No such file"),
}


@pytest.mark.parametrize("kind", NPY)
def test_an_npy_file_that_cannot_be_used_is_one_message(tmp_path, kind):
    write, message = NPY[kind]
    path = tmp_path / "set.npy"
    write(path)
    with pytest.raises(UserError, match=message) as raised:
        open_samples(path)
    assert str(raised.value).startswith(f"{path}") and "\n" not in str(raised.value)


def test_nothing_but_a_file_is_waited_for(tmp_path):
    os.mkfifo(tmp_path / "set.npz")
    for path in (tmp_path / "set.npz", "/dev/zero"):
        with pytest.raises(UserError, match="not a file"):
            open_samples(path)
    with pytest.raises(UserError, match=r"none\.npz cannot be read \(No such file"):
        open_samples(tmp_path / "none.npz")


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


FOLDERS = {
    "a text": (lambda path: path.write_text("no image"), "00003.png: not a readable image"),
    "a script": (lambda path: path.write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n"), "not a readable"),
    "a bomb": (lambda path: path.write_bytes(png_bomb()), "00003.png: not a readable image"),
    "another size": (lambda path: write_png(path, images(1, (8, 8))[0]), "8x8 pixels where 00000.png has 5x6"),
    "an alpha channel": (saved("RGBA"), "00003.png: image mode RGBA"),
    "16 bits": (lambda path: Image.fromarray(images(1)[0, ..., 0].astype(np.uint16)).save(path), "image mode I;16"),
    "a pipe": (os.mkfifo, "00003.png: it is not a file"),
    "a link to nothing": (lambda path: path.symlink_to("nothing"), "00003.png: No such file"),
    "a loop of folders": (lambda path: path.symlink_to(path.parent), "a link to a folder that contains it"),
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
