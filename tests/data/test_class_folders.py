"""Which class an image has: one rule for training and for sets that are evaluated, and folders that are no classes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tread_bench.core.errors import UserError
from tread_bench.data.check import data_problems
from tread_bench.data.image_folder.family import ImageFolderData
from tread_bench.data.open import open_data


def write(folder: Path, *names: str) -> Path:
    """An image in each place, with its number as its grey."""
    for number, name in enumerate(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (4, 4), (number,) * 3).save(folder / name)
    return folder


def choice(folder: Path, **more: Any) -> ImageFolderData:
    folders = (str(folder),)
    return ImageFolderData(train=folders, held_out=folders, image_size=4, **more)


def trained_labels(folder: Path, num_classes: int) -> dict[int, int]:
    """Label that training sees, by the grey of its image."""
    train = open_data(choice(folder, num_classes=num_classes)).train
    index = np.arange(len(train.classes))
    return dict(zip(train.uint8(index)[:, 0, 0, 0].tolist(), train.classes.tolist(), strict=True))


@pytest.mark.parametrize("names", [[f"{n}" for n in range(12)], [f"{n:05d}" for n in range(12)], ["10", "2", "cat"]])
def test_whole_numbers_are_their_labels_and_other_names_are_numbered_in_their_order(
    tmp_path: Path, names: list[str]
) -> None:
    write(tmp_path, *(f"{name}/{copy}.png" for name in names for copy in "ab"))
    assert trained_labels(tmp_path, len(names)) == {image: image // 2 for image in range(2 * len(names))}


def test_numbers_with_gaps_are_themselves_or_refused(tmp_path: Path) -> None:
    write(tmp_path, "3/a.png", "7/a.png")
    assert trained_labels(tmp_path, 10) == {0: 3, 1: 7}
    with pytest.raises(
        UserError, match=r"classes 3, 7 are whole numbers, .*allows 0 to 1: set data.num_classes: 8, or"
    ):
        trained_labels(tmp_path, 2)
    (found,) = data_problems([(choice(tmp_path, num_classes=8), True)])
    assert found.startswith("data.num_classes 8: no training sample has classes 0, 1, 2 and 3 more")


def test_one_number_written_twice_is_refused_and_so_is_an_archive(tmp_path: Path) -> None:
    archive = tmp_path / "edm.zip"
    with pytest.raises(UserError, match=r"edm\.zip: no such folder; name one"):
        trained_labels(archive, 3)
    archive.write_bytes(b"PK\5\6" + bytes(18))
    with pytest.raises(UserError, match=r"edm\.zip: not a folder; unpack it"):
        trained_labels(archive, 3)
    write(tmp_path, "1/a.png", "01/a.png")
    with pytest.raises(UserError, match=r"class folders 01 and 1 are the same number"):
        trained_labels(tmp_path, 2)


SHARDS = tuple(f"{number // 1000:05d}/img{number:08d}.png" for number in (0, 1, 2, 1000, 1001, 2000))


def edm(folder: Path, labels: Any) -> Path:
    """Six images as EDM's dataset_tool.py writes them."""
    write(folder, *SHARDS)
    (folder / "dataset.json").write_text(json.dumps({"labels": labels}))
    return folder


@pytest.mark.parametrize("kind", ["numbers", "vectors"])
def test_labels_of_edm_s_folders_are_those_of_its_list(tmp_path: Path, kind: str) -> None:
    labels = [4, 0, 3, 1, 2, 4]
    rows = np.eye(5)[labels].tolist() if kind == "vectors" else labels
    edm(tmp_path, [list(pair) for pair in zip(SHARDS, rows, strict=True)])
    assert trained_labels(tmp_path, 5) == dict(enumerate(labels))


def test_edm_s_folders_without_labels_have_no_classes(tmp_path: Path) -> None:
    edm(tmp_path, None)
    assert data_problems([(choice(tmp_path, num_classes=0), True)]) == []
    with pytest.raises(UserError, match=r"no class folders, and data\.num_classes is 3"):
        trained_labels(tmp_path, 3)


LISTS: dict[str, tuple[Any, str]] = {
    "fraction": ([[name, [0.5, 0.5]] for name in SHARDS], "label [0.5, 0.5] of 00000/img00000000.png; labels are"),
    "negative": ([[name, -1] for name in SHARDS], "label -1 of 00000/img00000000.png"),
    "one too few": ([[name, 1] for name in SHARDS[:-1]], "no label of 00002/img00002000.png; list every file"),
    "no list": (7, 'not {"labels": a list of [name, number]} in JSON'),
}


@pytest.mark.parametrize(("labels", "told"), LISTS.values(), ids=LISTS)
def test_a_list_that_cannot_be_used_is_refused(tmp_path: Path, labels: Any, told: str) -> None:
    edm(tmp_path, labels)
    with pytest.raises(UserError, match=re.escape(f"{tmp_path}/dataset.json: {told}")):
        trained_labels(tmp_path, 5)


PARTS = {
    "seeds": ("000000/000000.png", "000000/000999.png", "001000/001000.png", "001000/001001.png"),
    "dataset_tool without its list": SHARDS,
    "img2dataset": ("00000/000000001.png", "00001/000010001.png"),
}


@pytest.mark.parametrize("names", PARTS.values(), ids=PARTS)
def test_folders_of_a_thousand_images_are_no_classes(tmp_path: Path, names: tuple[str, ...]) -> None:
    write(tmp_path, *names)
    with pytest.raises(UserError, match=r"no class folders, and data\.num_classes is 2"):
        trained_labels(tmp_path, 2)


@pytest.mark.parametrize("names", [("train", "val", "test"), ("Train", "validation"), ("train2014", "val2014")])
def test_splits_are_no_classes(tmp_path: Path, names: tuple[str, ...]) -> None:
    write(tmp_path, *(f"{name}/cat/a.png" for name in names))
    rule = rf"are splits of a data set, not classes; name one of them, such as {tmp_path}/{names[0]}"
    for num_classes in (len(names), 0):
        with pytest.raises(UserError, match=rule):
            trained_labels(tmp_path, num_classes)


def test_a_class_may_be_called_as_a_split(tmp_path: Path) -> None:
    write(tmp_path, "bus/a.png", "train/a.png")
    assert trained_labels(tmp_path, 2) == {0: 0, 1: 1}


def test_what_systems_leave_behind_is_never_data(tmp_path: Path) -> None:
    left = ("__MACOSX/cat/._a.png", "@eaDir/a.png", ".ipynb_checkpoints/a.png", "lost+found/a.png", "cat/._a.png")
    left += ("dog/@eaDir/a.png", "$RECYCLE.BIN/a.png")
    write(tmp_path, "cat/a.png", "dog/a.png", *left)
    assert trained_labels(tmp_path, 2) == {0: 0, 1: 1}
