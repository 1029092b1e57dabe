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


def all_of(found: SampleSet, size: int = 4, start: int = 0) -> np.ndarray:
    """(n, H, W, C)."""
    batches = [*found.batches(size, start)]
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


# .npz files


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("channels", [1, 3])
def test_images_of_an_npz_file_come_in_order_from_any_place(tmp_path, save, channels):
    written = images(channels=channels)
    save(tmp_path / "set.npz", arr_0=written)
    found = open_samples(tmp_path / "set.npz")
    assert (found.name, found.count, found.shape, found.labels) == ("set", 11, (channels, 6, 5), None)
    for size, start in ((1, 0), (4, 0), (4, 3), (50, 10), (3, 9)):
        assert np.array_equal(all_of(found, size, start), written[start:])
    assert [*found.batches(4, 11)] == []
    assert np.array_equal(found.picture(2).permute(0, 2, 3, 1), written[:2])
    assert len(found.picture(99)) == 11


def test_the_hash_is_that_of_the_content(tmp_path):
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        np.savez(tmp_path / f"{name}.npz", arr_0=images(seed=seed))
    a, b, c = (open_samples(tmp_path / f"{name}.npz").sha256 for name in "abc")
    assert a == b != c


CLASSES = np.array([3, 0, 1, 2, 3, 0, 0, 1, 2, 3, 1])


@pytest.mark.parametrize(
    "stored",
    [
        *(np.eye(4, dtype=dtype)[CLASSES] for dtype in ("float32", "float16", "int64", "uint8", "bool")),
        *(CLASSES.astype(dtype) for dtype in ("int64", "uint8", ">i4", "float64", "float32", "float16")),
    ],
    ids=lambda stored: f"{stored.ndim}-{stored.dtype}",
)
@pytest.mark.parametrize("name", ["arr_1", "labels", "label"])
def test_one_hot_rows_and_whole_numbers_of_any_type_are_classes(tmp_path, stored, name):
    np.savez(tmp_path / "set.npz", arr_0=images(), **{name: stored})
    np.save(tmp_path / "labels.npy", stored)
    np.savez(tmp_path / "bare.npz", arr_0=images())
    sets = open_samples(tmp_path / "set.npz"), open_samples(tmp_path / "bare.npz", labels=tmp_path / "labels.npy")
    for found in sets:
        assert found.labels.dtype == np.int64 and np.array_equal(found.labels, CLASSES)


TWO_ONES = np.eye(4)[CLASSES]
TWO_ONES[5] = [1, 0, 1, 0]


@pytest.mark.parametrize(
    "stored",
    [
        np.eye(4)[CLASSES] * 2,
        np.full((11, 4), 0.25),
        TWO_ONES,
        TWO_ONES - np.eye(4)[CLASSES],
        np.random.default_rng(0).normal(size=(11, 4, 2, 2)),
        CLASSES + 0.5,
        np.where(CLASSES, CLASSES, np.nan),
        np.where(CLASSES, CLASSES, np.inf),
        CLASSES > 1,
        CLASSES[:, None],
        CLASSES.astype(complex),
        CLASSES.astype(str),
    ],
    ids=[
        *("twos", "probabilities", "two ones", "no one", "latents", "fractions", "nan", "inf"),
        *("booleans", "a column", "complex", "texts"),
    ],
)
def test_what_may_be_no_class_is_one_message_with_the_way_out(tmp_path, stored):
    np.savez(tmp_path / "set.npz", arr_0=images(), arr_1=stored)
    with pytest.raises(UserError, match=r"set\.npz: arr_1 is .*; labels are whole numbers .*another name$") as raised:
        open_samples(tmp_path / "set.npz")
    assert len(str(raised.value).splitlines()) == 1


def test_other_arrays_beside_images_are_left_alone(tmp_path):
    np.savez(tmp_path / "set.npz", arr_0=images(), latents=np.zeros((11, 4)), arr_2=np.zeros(11))
    assert open_samples(tmp_path / "set.npz").labels is None


def test_labels_of_a_file_replace_those_of_the_set(tmp_path):
    np.savez(tmp_path / "set.npz", arr_0=images(), arr_1=np.zeros(11, dtype=np.int64))
    np.save(tmp_path / "labels.npy", np.arange(11))
    found = open_samples(tmp_path / "set.npz", labels=tmp_path / "labels.npy")
    assert found.labels.tolist() == list(range(11))
    assert found.sha256 == open_samples(tmp_path / "set.npz").sha256  # features stay known
    (tmp_path / "labels.npy").write_bytes((tmp_path / "labels.npy").read_bytes()[:-1])
    with pytest.raises(UserError, match=r"labels\.npy: cut short, or longer than its NumPy header declares; copy it"):
        open_samples(tmp_path / "set.npz", labels=tmp_path / "labels.npy")


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path):
    path = tmp_path / "set.npz"
    np.savez(path, arr_0=images())
    found = open_samples(path)
    batches = found.batches(4)
    next(batches)
    with path.open("ab") as file:
        file.write(b"more")
    with pytest.raises(UserError, match=rf"{path} has changed since it was opened"):
        list(batches)
    with pytest.raises(UserError, match="has changed"):
        next(found.batches(4))


# Folders


def test_png_files_come_in_the_order_of_their_numbers(tmp_path):
    written = images()
    for number, image in enumerate(written):
        write_png(tmp_path / "set" / f"{number}.png", image)  # 10 after 9, not after 1
    found = open_samples(tmp_path / "set")
    assert (found.name, found.count, found.shape, found.labels) == ("set", 11, (3, 6, 5), None)
    for size, start in ((1, 0), (4, 3), (50, 10)):
        assert np.array_equal(all_of(found, size, start), written[start:])


@pytest.mark.parametrize(
    ("folders", "classes"),
    [
        (("cat", "dog", "eel"), (0, 1, 2)),
        (("2", "10", "7"), (2, 10, 7)),  # numbers are the classes themselves
        (("n01443537", "n01440764"), (1, 0)),
    ],
)
def test_class_folders_are_labels(tmp_path, folders, classes):
    for number, image in enumerate(images()):
        write_png(tmp_path / "set" / folders[number % len(folders)] / f"{number:06d}.png", image)
    found = open_samples(tmp_path / "set")
    expected = [classes[number % len(folders)] for number in range(11)]
    assert sorted(found.labels.tolist()) == sorted(expected)
    by_image = {image.tobytes(): label for image, label in zip(all_of(found), found.labels, strict=True)}
    assert [by_image[image.tobytes()] for image in images()] == expected


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
    with pytest.raises(UserError, match=re.escape(f"{GRID}: colour, 20x20 pixels where 00000.png is colour, 5x6")):
        open_samples(tmp_path)


def test_other_files_of_the_folder_do_not_matter(tmp_path):
    for path in write_folder(tmp_path / "set", images()).iterdir():
        os.utime(path, (1, 1))  # long ago, so what is found is remembered
    (tmp_path / "set" / "latest.txt").symlink_to("nowhere")
    os.mkfifo(tmp_path / "set" / "pipe")
    found = open_samples(tmp_path / "set")
    before, batches = found.sha256, found.batches(4)
    next(batches)
    (tmp_path / "set" / "log.txt").write_text("from another program")
    assert sum(len(batch) for batch in batches) == 7
    assert open_samples(tmp_path / "set").sha256 == before

    write_png(tmp_path / "set" / "000003.png", images(1, (9, 9))[0])
    with pytest.raises(UserError, match=r"000003\.png: colour, 9x9 pixels where 000000\.png is colour, 5x6 pixels"):
        open_samples(tmp_path / "set")


def test_links_to_images_are_followed(tmp_path):
    written = images()
    (tmp_path / "set").mkdir()
    for path in write_folder(tmp_path / "elsewhere", written).iterdir():
        (tmp_path / "set" / path.name).symlink_to(path)
    assert np.array_equal(all_of(open_samples(tmp_path / "set")), written)
