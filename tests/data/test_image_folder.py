"""Class folders of image files: which class an image has, the split, decoding once or on demand, and every mistake."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from tests.data.image_sets import write_folder
from tests.data.test_parquet import write as write_table
from tread_bench.core.errors import UserError
from tread_bench.data.check import data_problems
from tread_bench.data.image_folder.family import ImageFolderData
from tread_bench.data.images import encoded
from tread_bench.data.parquet.family import ParquetData
from tread_bench.data.source import ImageSet, open_data
from tread_bench.suite.files import Look
from tread_bench.suite.load import load_plan


def choice(*train: str, **more: Any) -> ImageFolderData:
    return ImageFolderData(train=train, **{"image_size": 4, "num_classes": 3, **more})


@pytest.fixture
def pets(tmp_path: Path) -> str:
    return write_folder(tmp_path / "pets", 33)


def test_every_tenth_image_is_held_out_where_nothing_else_is_named(pets: str) -> None:
    whole = open_data(choice(pets, held_out=(pets,))).train
    data = open_data(choice(pets))
    assert (len(data.train), len(data.held_out)) == (30, 3)
    assert torch.equal(data.held_out.uint8(np.arange(3)), whole.uint8(np.array([9, 19, 29])))
    assert data.held_out.labels(np.arange(3)).tolist() == whole.labels(np.array([9, 19, 29])).tolist()


def test_without_classes_images_may_be_anywhere(pets: str) -> None:
    image((4, 4), "loose.png")(Path(pets))
    train = open_data(choice(pets, num_classes=0)).train
    assert len(train) == 31 and not train.labels(np.arange(31)).any()


def test_a_large_set_is_decoded_on_demand_and_is_the_same(pets: str, monkeypatch: Any) -> None:
    at_once = open_data(choice(pets))
    monkeypatch.setattr(encoded, "MOST_BYTES", 0)
    on_demand = open_data(choice(pets))
    assert isinstance(at_once.train, ImageSet) and not isinstance(on_demand.train, ImageSet)
    index = np.array([28, 3, 3, 0])
    assert torch.equal(at_once.train.images(index), on_demand.train.images(index))
    assert torch.equal(at_once.held_out.images(index % 3), on_demand.held_out.images(index % 3))
    assert torch.equal(at_once.train.labels(index), on_demand.train.labels(index))
    assert [len(batch) for batch in on_demand.reference.batches(16)] == [16, 14]


def image(size: tuple[int, int], name: str) -> Any:
    return lambda folder: Image.new("RGB", size).save(folder / name)


HARMS = [
    (lambda folder: folder.rename(folder.with_name("x")), "{pets}: no such folder; name one that has"),
    (lambda folder: shutil.rmtree(folder / "cat"), "{pets}: 2 class folders (dog, eel) where data.num_classes is 3"),
    (image((4, 4), "loose-0.png"), "{pets}/loose-0.png: in no class folder; move them into one, or set data.num"),
    (lambda folder: (folder / "eel" / "032.png").write_bytes(b"no image"), "{pets}/eel/032.png: not a readable image"),
    (image((9, 3), "cat/000.png"), "{pets}/cat/000.png: image of 9x3 pixels where data.image_size is 4: smaller ones"),
]


@pytest.mark.parametrize(("harm", "message"), HARMS)
def test_a_mistake_is_named_before_anything_is_trained(pets: str, harm: Any, message: str) -> None:
    harm(Path(pets))
    (found,) = data_problems([(choice(pets), True)])
    assert found.startswith(message.format(pets=pets)), found


def test_every_header_is_read_once_where_that_is_requested(pets: str) -> None:
    for number in (3, 6, 9, 12, 15):  # neither the first nor the last
        image((9, 3), f"cat/{number:03d}.png")(Path(pets))
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
    few = write_folder(tmp_path / "few", 9)
    (found,) = data_problems([(choice(few), True)])
    assert found == f"{few}: 9 images, where every tenth is held out: name others under data.held_out"


def test_the_page_s_way_from_300_files_to_a_report_is_planned_without_a_mistake(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "methods" / "images.md").read_text(encoding="utf-8")
    write_folder(tmp_path / "pets", 300)
    suite = tmp_path / "pets.yaml"
    suite.write_text(page.split("```yaml\n")[1].split("```")[0], encoding="utf-8")
    settings = ["metrics.generate=false", "data.enlarge=true"]  # the images have 4 to 6 pixels
    assert len(load_plan(suite, settings, look=Look.CONTENTS).cells) == 12


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
    options, where = choice(str(folder)), folder
    if name == "parquet":
        where = tmp_path / "pets.parquet"
        cells = [{"bytes": path.read_bytes(), "path": None} for path in sorted(folder.rglob("*.*"))]
        table = (write_table(where, cells, None),)
        options = ParquetData(train=table, held_out=table, image_size=4, num_classes=0)
    assert data_problems([(options, True)], reads_everything=True) == []
    told = {record.getMessage() for record in caplog.records}
    rule = "images are turned by their EXIF orientation alone, which is not applied, as in ADM's code; "
    assert told == {f"{where}: 3 of 37 {rule}turn their pixels if they should be upright"}


# ---- which class an image has: one rule for training and for sets that are evaluated


def write(folder: Path, *names: str) -> Path:
    """An image in each place, with its number as its grey."""
    for number, name in enumerate(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (4, 4), (number,) * 3).save(folder / name)
    return folder


def both(folder: Path, num_classes: int) -> ImageFolderData:
    """Training and held-out images are the same."""
    return choice(str(folder), held_out=(str(folder),), num_classes=num_classes)


def trained_labels(folder: Path, num_classes: int) -> dict[int, int]:
    """Label that training sees, by the grey of its image."""
    train = open_data(both(folder, num_classes)).train
    index = np.arange(len(train.classes))
    return dict(zip(train.uint8(index)[:, 0, 0, 0].tolist(), train.classes.tolist(), strict=True))


@pytest.mark.parametrize("names", [[f"{n}" for n in range(12)], [f"{n:05d}" for n in range(12)], ["10", "2", "cat"]])
def test_whole_numbers_are_their_labels_and_other_names_are_numbered_in_order(tmp_path: Path, names: Any) -> None:
    write(tmp_path, *(f"{name}/{copy}.png" for name in names for copy in "ab"))
    assert trained_labels(tmp_path, len(names)) == {image: image // 2 for image in range(2 * len(names))}


def refused(folder: Path, num_classes: int, rule: str) -> None:
    with pytest.raises(UserError, match=rule):
        trained_labels(folder, num_classes)


def test_numbers_with_gaps_are_themselves_or_refused(tmp_path: Path) -> None:
    write(tmp_path, "3/a.png", "7/a.png")
    assert trained_labels(tmp_path, 10) == {0: 3, 1: 7}
    refused(tmp_path, 2, r"classes 3, 7 are whole numbers, .*allows 0 to 1: set data.num_classes: 8, or")
    (found,) = data_problems([(both(tmp_path, 8), True)])
    assert found.startswith("data.num_classes 8: no training sample has classes 0, 1, 2 and 3 more")


def test_one_number_written_twice_is_refused_and_so_is_an_archive(tmp_path: Path) -> None:
    archive = tmp_path / "edm.zip"
    archive.write_bytes(b"PK\5\6" + bytes(18))
    refused(archive, 3, r"edm\.zip: not a folder; unpack it")
    write(tmp_path, "1/a.png", "01/a.png")
    refused(tmp_path, 2, "class folder 01 has the same number as another")


SHARDS = tuple(f"{number // 1000:05d}/img{number:08d}.png" for number in (0, 1, 2, 1000, 1001, 2000))


def edm(folder: Path, labels: Any) -> Path:
    """Six images as EDM's dataset_tool.py writes them."""
    write(folder, *SHARDS)
    (folder / "dataset.json").write_text(json.dumps({"labels": labels}))
    return folder


def test_labels_of_edm_s_folders_are_those_of_its_list_and_without_labels_there_are_no_classes(tmp_path: Path) -> None:
    labels = [4, 0, 3, 1, 2, 4]
    for rows in (labels, np.eye(5)[labels].tolist()):
        edm(tmp_path, [list(pair) for pair in zip(SHARDS, rows, strict=True)])
        assert trained_labels(tmp_path, 5) == dict(enumerate(labels))
    edm(tmp_path, None)
    assert data_problems([(both(tmp_path, 0), True)]) == []
    refused(tmp_path, 3, r"no class folders, and data\.num_classes is 3")


LISTS: dict[str, tuple[Any, str]] = {
    "fraction": ([[name, [0.5, 0.5]] for name in SHARDS], "label [0.5, 0.5] of 00000/img00000000.png; labels are"),
    "negative": ([[name, -1] for name in SHARDS], "label -1 of 00000/img00000000.png"),
    "one too few": ([[name, 1] for name in SHARDS[:-1]], "no label of 00002/img00002000.png; list every file"),
    "no list": (7, 'not {"labels": a list of [name, number]} in JSON'),
}


@pytest.mark.parametrize(("labels", "told"), LISTS.values(), ids=LISTS)
def test_a_list_that_cannot_be_used_is_refused(tmp_path: Path, labels: Any, told: str) -> None:
    refused(edm(tmp_path, labels), 5, re.escape(f"{tmp_path}/dataset.json: {told}"))


SEEDS = ("000000/000000.png", "000000/000999.png", "001000/001000.png", "001000/001001.png")
IMG2DATASET = ("00000/000000001.png", "00001/000010001.png")


@pytest.mark.parametrize("names", [SEEDS, SHARDS, IMG2DATASET])
def test_folders_of_a_thousand_images_are_no_classes(tmp_path: Path, names: tuple[str, ...]) -> None:
    refused(write(tmp_path, *names), 2, r"no class folders, and data\.num_classes is 2")


@pytest.mark.parametrize("names", [("train", "val", "test"), ("Train", "validation"), ("train2014", "val2014")])
def test_splits_are_no_classes(tmp_path: Path, names: tuple[str, ...]) -> None:
    write(tmp_path, *(f"{name}/cat/a.png" for name in names))
    rule = rf"are splits of a data set, not classes; name one of them, such as {tmp_path}/{names[0]}"
    for num_classes in (len(names), 0):
        refused(tmp_path, num_classes, rule)


def test_what_systems_leave_behind_is_never_data_and_a_class_may_be_called_as_a_split(tmp_path: Path) -> None:
    left = ("__MACOSX/bus/._a.png", "@eaDir/a.png", ".ipynb_checkpoints/a.png", "lost+found/a.png", "bus/._a.png")
    (tmp_path / "bus").mkdir()
    (tmp_path / "bus" / "notes.txt").touch()
    write(tmp_path, "bus/z/deep.PNG", "train/a.bmp", "bus/.x.png", *left, "train/@eaDir/a.png", "$RECYCLE.BIN/a.png")
    assert trained_labels(tmp_path, 2) == {0: 0, 1: 1}
