"""Sets of images on disk are read as they were written, in order, in batches of any size."""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch
from PIL import Image

from tread_bench.core.errors import UserError
from tread_bench.measure.quality.png import GRID, grid_png, image_png
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


def save_in_fortran_order(path, images):
    np.save(path, np.asfortranarray(images))


NPY = [("set.npy", np.save), ("set.npy", save_in_fortran_order)]


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


def test_images_that_exif_alone_turns_are_counted(tmp_path):
    write_folder(tmp_path / "set", images(5))
    orientation = Image.Exif()
    orientation[0x0112] = 6
    for number in (1, 3):
        Image.fromarray(images()[number]).save(tmp_path / "set" / f"{number:06d}.png", exif=orientation)
    (warning,) = open_samples(tmp_path / "set").warnings
    assert "2 of 5 images are turned by their EXIF orientation alone, which is not applied" in warning
    assert not open_samples(tmp_path / "set", num=1).warnings[1:]
