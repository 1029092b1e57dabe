"""Sets of images on disk are read as they were written, and whatever is wrong is one message with file and member."""

from __future__ import annotations

import os
import struct
import zipfile

import numpy as np
import pytest
import torch
from PIL import Image

from tread_bench.core.errors import UserError
from tread_bench.measure.quality.png import GRID, grid_png, image_png
from tread_bench.measure.sets.reference import open_reference
from tread_bench.measure.sets.samples import open_samples


def images(count=11, side=(6, 5), channels=3, seed=0):
    """(n, H, W, C)."""
    return np.random.default_rng(seed).integers(0, 256, (count, *side, channels), dtype=np.uint8)


def all_of(found, size=4):
    """(n, H, W, C)."""
    batches = [*found.batches(size)]
    assert all(len(batch) == size for batch in batches[:-1])
    assert all(batch.dtype == torch.uint8 for batch in batches)
    return torch.cat(batches).permute(0, 2, 3, 1).numpy()


def write_png(path, image):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image).save(path)


def write_folder(folder, written):
    for number, image in enumerate(written):
        write_png(folder / f"{number:06d}.png", image)
    return folder


# Files of arrays


NPY = [("set.npy", np.save), ("set.npy", lambda path, images: np.save(path, np.asfortranarray(images)))]


@pytest.mark.parametrize(("name", "save"), [("set.npz", np.savez), ("set.npz", np.savez_compressed), *NPY])
@pytest.mark.parametrize("channels", [1, 3])
def test_images_of_a_file_come_in_order_in_batches_of_any_size(tmp_path, name, save, channels):
    written = images(channels=channels)
    save(tmp_path / name, written)
    found = open_samples(tmp_path / name)
    assert (found.name, found.count, len(found), found.shape) == ("set", 11, 11, (channels, 6, 5))
    for size in (1, 4, 11, 50):
        assert np.array_equal(all_of(found, size), written)
    assert np.array_equal(found.picture(2).permute(0, 2, 3, 1), written[:2])
    assert len(found.picture(99)) == 11


# Folders


def test_the_first_images_of_a_folder_are_a_set(tmp_path):
    written = images()
    for number, image in enumerate(written):
        write_png(tmp_path / "set" / f"{number}.png", image)
    found = open_samples(tmp_path / "set", num=10)
    assert np.array_equal(all_of(found), written[:10])
    (warning,) = found.warnings
    assert warning.endswith("set/: the first 10 of 11 images, in the order of the numbers in their names.")
    (tmp_path / "set" / "10.png").unlink()
    alone = open_samples(tmp_path / "set")
    assert alone.sha256 == found.sha256 and not alone.warnings
    with pytest.raises(UserError, match=r"set/: 10 images, and --num requests 11"):
        open_samples(tmp_path / "set", num=11)


def test_images_of_class_folders_are_one_set(tmp_path):
    written = images()
    for number, image in enumerate(written):
        write_png(tmp_path / "set" / ("cat", "dog")[number % 2] / f"{number:02d}.png", image)
    assert np.array_equal(all_of(open_samples(tmp_path / "set")), np.concatenate([written[::2], written[1::2]]))


def test_palette_images_keep_every_pixel(tmp_path):
    colour = images(count=1)[0] // 64 * 64  # 64 colours
    Image.fromarray(colour).quantize(256).save(tmp_path / "palette.png")
    assert np.array_equal(all_of(open_samples(tmp_path))[0], colour)


def test_grey_images_stay_grey_and_become_colour_in_a_set_in_colour_wherever_they_are(tmp_path):
    grey, colour = images(2, channels=1), images(1)[0]
    write_png(tmp_path / "set" / "1.png", grey[0])
    write_png(tmp_path / "set" / "3.png", grey[1])
    assert np.array_equal(all_of(open_samples(tmp_path / "set")), grey)
    write_png(tmp_path / "set" / "2.png", colour)
    first, second, third = all_of(open_samples(tmp_path / "set"))
    assert np.array_equal(second, colour)
    assert np.array_equal([first, third], np.broadcast_to(grey, (2, *colour.shape)))


def test_the_overview_that_sample_writes_is_not_a_sample(tmp_path):
    pixels = torch.from_numpy(images()).permute(0, 3, 1, 2).contiguous()
    for number, image in enumerate(pixels):
        (tmp_path / f"{number:05d}.png").write_bytes(image_png(image))
    (tmp_path / GRID).write_bytes(grid_png(pixels))
    assert open_samples(tmp_path).count == 11
    (tmp_path / "class").mkdir()
    (tmp_path / "class" / GRID).write_bytes(image_png(pixels[0]))  # nobody's overview
    assert open_samples(tmp_path).count == 12


def test_other_files_of_the_folder_do_not_matter(tmp_path):
    for path in write_folder(tmp_path / "set", images()).iterdir():
        os.utime(path, (1, 1))  # long ago, so what is found is remembered
    (tmp_path / "set" / "latest.txt").symlink_to("nowhere")
    os.mkfifo(tmp_path / "set" / "pipe")
    found = open_samples(tmp_path / "set")
    (tmp_path / "set" / "log.txt").write_text("from another program")
    assert open_samples(tmp_path / "set").sha256 == found.sha256

    write_png(tmp_path / "set" / "000003.png", images(1, (9, 9))[0])
    with pytest.raises(UserError, match=r"000003\.png: .*; copy it again"):
        all_of(found)
    with pytest.raises(UserError, match=r"000003\.png: 9x9 pixels where 000000\.png has 5x6"):
        open_samples(tmp_path / "set")


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


def cut_end(path):
    np.savez(path, arr_0=images(200))
    path.write_bytes(path.read_bytes()[:-100])


def damaged(path):
    """A byte of the pixels is another one."""
    np.savez(path, arr_0=images(200))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


FORM = "images are uint8 of shape"
DAMAGED = r"not an \.npz archive, or a damaged one"
NPZ = {
    "no archive": (lambda path: path.write_bytes(b"no archive"), "of a pickle that you trust, store the arrays"),
    "cut at the end": (cut_end, DAMAGED),
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
    "a long side": (lambda path: Image.new("L", (4097, 1)).save(path), "4097x1 pixels: a side has at most 4096"),
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
