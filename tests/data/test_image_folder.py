"""Class folders of image files: labels, the split, decoding once or on demand, and every mistake with its place."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

from tests.data.checked import failing_of_data
from tests.data.image_sets import write_folder
from tests.data.test_parquet import KIND
from tread_bench.core.describe.data_sources import find_data_source
from tread_bench.core.errors import UserError
from tread_bench.data.check import data_problems
from tread_bench.data.image_folder.family import ImageFolderData
from tread_bench.data.images import encoded
from tread_bench.data.open import open_data
from tread_bench.data.parquet.family import ParquetData
from tread_bench.data.source import ImageSet
from tread_bench.suite.files import Look
from tread_bench.suite.load import load_plan

IMAGE_FOLDER = find_data_source("image_folder")


def choice(*train: str, **more: Any) -> ImageFolderData:
    return ImageFolderData(train=train, **{"image_size": 4, "num_classes": 3, **more})


@pytest.fixture
def pets(tmp_path: Path) -> str:
    return write_folder(tmp_path / "pets", 33)


def one_colour(path: Path, grey: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (4, 4), (grey, grey, grey)).save(path)


def test_labels_are_the_places_of_the_sorted_class_names(tmp_path: Path) -> None:
    for grey, name in enumerate(("dog/b.png", "cat/z/deep.PNG", "dog/a.bmp", "cat/1.png", "cat/.x.png")):
        one_colour(tmp_path / "pets" / name, grey)
    (tmp_path / "pets" / "cat" / "notes.txt").touch()
    data = open_data(choice(str(tmp_path / "pets"), held_out=(str(tmp_path / "pets"),), num_classes=2))
    assert data.train.uint8(np.arange(4))[:, 0, 0, 0].tolist() == [3, 1, 2, 0]  # by class, then by name
    assert data.train.labels(np.arange(4)).tolist() == [0, 0, 1, 1]


def test_every_tenth_image_is_held_out_where_nothing_else_is_named(pets: str) -> None:
    whole = open_data(choice(pets, held_out=(pets,))).train
    data = open_data(choice(pets))
    assert (len(data.train), len(data.held_out)) == (30, 3)
    assert torch.equal(data.held_out.uint8(np.arange(3)), whole.uint8(np.array([9, 19, 29])))
    assert data.held_out.labels(np.arange(3)).tolist() == whole.labels(np.array([9, 19, 29])).tolist()


def test_without_classes_images_may_be_anywhere(tmp_path: Path) -> None:
    for grey in range(12):
        one_colour(tmp_path / "all" / ("deep" if grey % 2 else ".") / f"{grey}.png", grey)
    data = open_data(choice(str(tmp_path / "all"), num_classes=0))
    assert len(data.train) == 11 and not data.train.classes.any()


def test_a_large_set_is_decoded_on_demand_and_is_the_same(pets: str, monkeypatch: Any) -> None:
    at_once = open_data(choice(pets))
    monkeypatch.setattr(encoded, "MOST_BYTES", 0)
    on_demand = open_data(choice(pets))
    assert isinstance(at_once.train, ImageSet) and not isinstance(on_demand.train, ImageSet)
    index = np.array([28, 3, 3, 0])
    for name in ("train", "held_out"):
        one, other = getattr(at_once, name), getattr(on_demand, name)
        assert torch.equal(one.images(index % len(one)), other.images(index % len(one)))
        assert torch.equal(one.labels(index % len(one)), other.labels(index % len(one)))
    assert [len(batch) for batch in on_demand.reference.batches(16)] == [16, 14]


def test_sets_that_are_decoded_on_demand_keep_the_contract(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(encoded, "MOST_BYTES", 0)
    options, changed = (
        {"train": [write_folder(tmp_path / f"train{seed}", 70, seed)], "image_size": 4, "num_classes": 3}
        for seed in (0, 1)
    )
    assert failing_of_data(IMAGE_FOLDER, tmp_path, options, changed) == set()


def empty_class(folder: Path) -> None:
    for path in (folder / "cat").iterdir():
        path.unlink()


def loose(folder: Path) -> None:
    one_colour(folder / "loose-0.png", 0)


def damaged(folder: Path) -> None:
    (folder / "eel" / "032.png").write_bytes(b"no image")


def small(folder: Path) -> None:
    Image.new("RGB", (9, 3)).save(folder / "cat" / "000.png")


HARMS: dict[str, tuple[Any, dict[str, Any], str]] = {
    "gone": (lambda folder: folder.rename(folder.with_name("x")), {}, "{pets}: no such folder; name one that has"),
    "count of classes": (
        lambda folder: None,
        {"num_classes": 5},
        "{pets}: 3 class folders (cat, dog, eel) where data.num_classes is 5: set data.num_classes: 3",
    ),
    "empty class": (empty_class, {}, "{pets}: 2 class folders (dog, eel) where data.num_classes is 3"),
    "loose": (loose, {}, "{pets}/loose-0.png: in no class folder; move them into one, or set data.num_classes: 0"),
    "damaged": (damaged, {}, "{pets}/eel/032.png: not a readable image"),
    "small": (small, {}, "{pets}/cat/000.png: image of 9x3 pixels where data.image_size is 4: smaller ones are not"),
}


@pytest.mark.parametrize(("harm", "more", "message"), HARMS.values(), ids=HARMS.keys())
def test_a_mistake_is_named_before_anything_is_trained(pets: str, harm: Any, more: Any, message: str) -> None:
    harm(Path(pets))
    (found,) = data_problems([(choice(pets, **more), True)])
    assert found.startswith(message.format(pets=pets)), found


def test_every_header_is_read_once_where_that_is_requested(pets: str) -> None:
    for number in (3, 6, 9, 12, 15):  # neither the first nor the last
        Image.new("RGB", (9, 3)).save(f"{pets}/cat/{number:03d}.png")
    assert data_problems([(choice(pets), True)]) == []
    found = data_problems([(choice(pets), True)], reads_everything=True)
    assert [message.split(": ")[0] for message in found[:3]] == [f"{pets}/cat/{number:03d}.png" for number in (3, 6, 9)]
    assert found[3:] == [f"{pets}: 5 of 33 images cannot be used; the first 3 are named"]


def test_a_class_that_the_training_images_lack_is_named(pets: str, tmp_path: Path) -> None:
    held_out = write_folder(tmp_path / "held_out", 3)
    os.rename(f"{held_out}/cat", f"{held_out}/cow")
    (found,) = data_problems([(choice(pets, held_out=(held_out,)), True)])
    assert found.startswith(f"{held_out}: class folders cow, which the training images lack")


def test_too_few_images_to_hold_some_out(tmp_path: Path) -> None:
    options = choice(write_folder(tmp_path / "few", 6))
    with pytest.raises(UserError, match=r"6 images, where every tenth is held out: name others under data\.held_out"):
        open_data(options)
    (found,) = data_problems([(options, True)])
    assert found.startswith(f"{tmp_path / 'few'}: 6 images")


def test_the_page_s_way_from_300_files_to_a_report_is_planned_without_a_mistake(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "methods" / "images.md").read_text(encoding="utf-8")
    for number in range(300):
        path = tmp_path / "pets" / ("cat", "dog", "eel")[number % 3] / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (17 + number % 5, 20), (number % 256, 0, 0)).save(path)
    suite = tmp_path / "pets.yaml"
    suite.write_text(page.split("```yaml\n")[1].split("```")[0], encoding="utf-8")
    assert len(load_plan(suite, ["metrics.generate=false"], look=Look.CONTENTS).cells) == 12
    with pytest.raises(UserError, match=r"metrics\.validation_samples 31: data image_folder holds out 30 samples"):
        load_plan(suite, ["metrics.generate=false", "metrics.validation_samples=31"], look=Look.CONTENTS)


def test_an_image_that_fails_in_training_is_named(pets: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(encoded, "MOST_BYTES", 0)
    data = open_data(choice(pets))
    Path(pets, "dog", "001.png").unlink()
    with pytest.raises(UserError, match=r"dog/001\.png: cannot be read \(No such file or directory\)"):
        data.train.images(np.arange(30))


@pytest.mark.parametrize("name", ["image_folder", "parquet"])
def test_images_that_exif_alone_turns_are_counted_before_training(name: str, tmp_path: Path, caplog: Any) -> None:
    folder = Path(write_folder(tmp_path / "pets", 33))
    orientation = Image.Exif()
    for number, value in enumerate((1, 3, 6, 8)):  # 1: as it is stored
        orientation[0x0112] = value
        Image.new("RGB", (4, 4)).save(folder / "cat" / f"{3 * number:03d}.jpg", exif=orientation)
    options, where, count = choice(str(folder)), folder, 37
    if name == "parquet":
        files = sorted(folder.rglob("*.*"))
        cells = [{"bytes": path.read_bytes(), "path": None} for path in files]
        where, count = tmp_path / "pets.parquet", len(files)
        pq.write_table(pa.table({"image": pa.array(cells, KIND)}), where)
        options = ParquetData(train=(str(where),), held_out=(str(where),), image_size=4, num_classes=0)
    assert data_problems([(options, True)], reads_everything=True) == []
    told = {record.getMessage() for record in caplog.records}
    rule = "images are turned by their EXIF orientation alone, which is not applied, as in ADM's code; "
    assert told == {f"{where}: 3 of {count} {rule}turn their pixels if they should be upright"}
