"""Sets of images on disk are read as they were written, in order, in batches of any size."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from tread_bench.core.errors import UserError
from tread_bench.measure.sets.samples import SampleSet, open_samples


def images(count: int = 11, side: tuple[int, int] = (6, 5), channels: int = 3, seed: int = 0) -> np.ndarray:
    """(n, H, W, C)."""
    return np.random.default_rng(seed).integers(0, 256, (count, *side, channels), dtype=np.uint8)


def all_of(found: SampleSet, size: int = 4) -> np.ndarray:
    """(n, H, W, C)."""
    batches = [*found.batches(size)]
    assert all(len(batch) == size for batch in batches[:-1])
    assert all(batch.dtype == torch.uint8 for batch in batches)
    return torch.cat(batches).permute(0, 2, 3, 1).numpy()


def write_png(path: Path, image: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image).save(path)


def write_folder(folder: Path, written: np.ndarray) -> Path:
    for number, image in enumerate(written):
        write_png(folder / f"{number:06d}.png", image)
    return folder


# Files of arrays


def save_npy(path: Path, arr_0: np.ndarray) -> None:
    with path.open("wb") as file:
        np.save(file, arr_0)


@pytest.mark.parametrize(
    ("name", "save"), [("set.npz", np.savez), ("set.npz", np.savez_compressed), ("set.npy", save_npy)]
)
@pytest.mark.parametrize("channels", [1, 3])
def test_images_of_a_file_come_in_order_in_batches_of_any_size(tmp_path, name, save, channels):
    written = images(channels=channels)
    save(tmp_path / name, arr_0=written)
    found = open_samples(tmp_path / name)
    assert (found.name, found.count, len(found), found.shape) == ("set", 11, 11, (channels, 6, 5))
    for size in (1, 4, 11, 50):
        assert np.array_equal(all_of(found, size), written)
    assert np.array_equal(found.picture(2).permute(0, 2, 3, 1), written[:2])
    assert len(found.picture(99)) == 11


def test_an_npy_file_in_fortran_order_is_read_as_what_it_holds(tmp_path):
    save_npy(tmp_path / "set.npy", np.asfortranarray(images()))
    assert np.array_equal(all_of(open_samples(tmp_path / "set.npy")), images())


def test_the_hash_is_that_of_the_content(tmp_path):
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        np.savez(tmp_path / f"{name}.npz", arr_0=images(seed=seed))
    a, b, c = (open_samples(tmp_path / f"{name}.npz").sha256 for name in "abc")
    assert a == b != c


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


def test_grey_and_palette_images_keep_every_pixel(tmp_path):
    written = images(channels=1)
    assert np.array_equal(all_of(open_samples(write_folder(tmp_path / "set", written))), written)

    colour = images(count=1)[0] // 64 * 64  # 64 colours
    (tmp_path / "other").mkdir()
    Image.fromarray(colour).quantize(256).save(tmp_path / "other" / "palette.png")
    assert np.array_equal(all_of(open_samples(tmp_path / "other"))[0], colour)


@pytest.mark.parametrize("grey_first", [True, False])
def test_grey_images_of_a_set_in_colour_become_colour_wherever_they_are(tmp_path, grey_first):
    grey, colour = images(1, channels=1)[0], images(1)[0]
    for number, image in enumerate((grey, colour) if grey_first else (colour, grey)):
        write_png(tmp_path / "set" / f"{number}.png", image)
    first, second = all_of(open_samples(tmp_path / "set"))
    of_grey, of_colour = (first, second) if grey_first else (second, first)
    assert np.array_equal(of_grey, np.broadcast_to(grey, colour.shape)) and np.array_equal(of_colour, colour)


def test_the_overview_that_sample_writes_is_not_a_sample(tmp_path):
    from tread_bench.measure.quality.png import GRID, grid_png, image_png

    pixels = torch.from_numpy(images()).permute(0, 3, 1, 2).contiguous()
    for number, image in enumerate(pixels):
        (tmp_path / f"{number:05d}.png").write_bytes(image_png(image))
    (tmp_path / GRID).write_bytes(grid_png(pixels))
    assert open_samples(tmp_path).count == 11

    write_png(tmp_path / GRID, images(1, (20, 20))[0])  # somebody else's image
    with pytest.raises(UserError, match=re.escape(f"{GRID}: 20x20 pixels where 00000.png has 5x6")):
        open_samples(tmp_path)


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
