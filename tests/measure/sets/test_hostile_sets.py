"""Whatever is wrong with a set on disk is one message with file and member."""

from __future__ import annotations

import os
import pickle
import struct
import zipfile
import zlib

import numpy as np
import pytest
from PIL import Image

from tests.measure.sets.test_samples import images, write_png
from tread_bench.core.errors import UserError
from tread_bench.measure.sets.reference import open_reference
from tread_bench.measure.sets.samples import open_samples


def head(shape, dtype="|u1"):
    """Header of an .npy file."""
    text = repr({"descr": dtype, "fortran_order": False, "shape": shape}).encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def member(name, content, method=zipfile.ZIP_STORED):
    def write(path):
        with zipfile.ZipFile(path, "w", method) as archive:
            archive.writestr(f"{name}.npy", content)

    return write


def arrays(**values):
    return lambda path: np.savez(path, **values)


def cut(path):
    np.savez(path, arr_0=images(200))
    path.write_bytes(path.read_bytes()[:-100])


def damaged(path):
    """A byte of the pixels is another one."""
    np.savez(path, arr_0=images(200))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def damaged_stream(path):
    np.savez_compressed(path, arr_0=images(200))
    content = bytearray(path.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 64] = bytes(64)
    path.write_bytes(content)


FORM = "images are uint8 of shape"
DAMAGED = r"not an \.npz archive, or a damaged one"
NPZ = {
    "a pickle": (lambda path: path.write_bytes(pickle.dumps({"a": 1})), "of a pickle that you trust, store the arrays"),
    "cut at the end": (cut, DAMAGED),
    "other arrays": (arrays(x=images(), y=images()), "no array arr_0 in it; it has x, y"),
    "pickled images": (arrays(arr_0=np.array([{}], dtype=object)), "arr_0 holds Python objects"),
    "floats": (arrays(arr_0=images() / 255), r"arr_0 is float64 of shape \(11, 6, 5, 3\); " + FORM),
    "an alpha channel": (arrays(arr_0=images(channels=4)), "C 1 or 3"),
    "Fortran order": (arrays(arr_0=np.asfortranarray(images())), "in Fortran order"),
    "no images": (arrays(arr_0=images(0)), "n at least 1"),
    "a negative shape": (member("arr_0", head((-1, 8, 8, 3))), "a NumPy header with the shape"),
    "huge images": (member("arr_0", head((1, 10**9, 10**9, 3))), "H and W at most 4096"),
    "a header without end": (member("arr_0", b"\x93NUMPY\x02\x00\xff\xff\xff\x7f" + bytes(99)), "not a readable NumPy"),
    "code in the header": (member("arr_0", head(("__import__('os').abort()",))), "not a readable NumPy header"),
}


@pytest.mark.parametrize("kind", NPZ)
def test_an_npz_file_that_cannot_be_used_is_one_message(tmp_path, kind):
    write, message = NPZ[kind]
    path = tmp_path / "set.npz"
    write(path)
    for open_set in (open_samples, open_reference):
        with pytest.raises(UserError, match=message) as raised:
            open_set(path)
        assert str(raised.value).startswith(f"{path}: ") and "\n" not in str(raised.value)


READ = {
    "a damaged image": damaged,
    "a damaged stream": damaged_stream,
    "fewer bytes than declared": member("arr_0", head((50_000, 512, 512, 3))),
    "more bytes than declared": member("arr_0", head((1, 8, 8, 3)) + bytes(193)),
}
OTHERS = {
    "none.npz": (lambda path: None, r"none\.npz cannot be read \(No such file"),
    "empty": (os.mkdir, r"no image files \(\.png\)"),
    "pipe.npz": (os.mkfifo, "not a file"),
    "pipe.npy": (os.mkfifo, "it is not a file"),
    "cut.npy": (lambda path: path.write_bytes(head((9, 8, 8, 3)) + bytes(99)), "no array that can be read"),
}


@pytest.mark.parametrize("name", [*READ, *OTHERS])
def test_a_file_whose_pixels_cannot_be_read_is_one_message(tmp_path, name):
    write, message = OTHERS.get(name) or (READ[name], r": arr_0 cannot be read \(.*\); copy the file again")
    path = tmp_path / (name if name in OTHERS else "set.npz")
    write(path)
    with pytest.raises(UserError, match=message) as raised:
        [*open_samples(path).batches(8)]
    assert str(raised.value).startswith(f"{path}") and "\n" not in str(raised.value)


# Folders


def png_bomb():
    """100 bytes that declare ten billion pixels."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    size = struct.pack(">IIBBBBB", 100_000, 100_000, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


def saved(mode, kind="PNG"):
    def write(path):
        Image.fromarray(images(1)[0]).convert(mode).save(path, kind)

    return write


def cut_image(path):
    """A valid header and half of the pixels."""
    write_png(path, images(1)[0])
    path.write_bytes(path.read_bytes()[:-40])


FOLDERS = {
    "a text": (lambda path: path.write_text("no image"), "00003.png: not a readable image"),
    "a bomb": (lambda path: path.write_bytes(png_bomb()), "00003.png: not a readable image"),
    "another size": (lambda path: write_png(path, images(1, (8, 8))[0]), "8x8 pixels where 00000.png has 5x6"),
    "an alpha channel": (saved("RGBA"), "00003.png: image mode RGBA"),
    "16 bits": (lambda path: Image.fromarray(images(1)[0, ..., 0].astype(np.uint16)).save(path), "image mode I;16"),
    "a pipe": (os.mkfifo, "00003.png: it is not a file"),
    "a loop of folders": (lambda path: path.symlink_to(path.parent), "a link to a folder that contains it"),
    "cut pixels": (cut_image, r"00003\.png: not a readable image"),
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
        [*open_samples(folder).batches(8)]
    assert "\n" not in str(raised.value)
