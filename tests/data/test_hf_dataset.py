"""Folders of Hugging Face's `datasets`: rows in order over files and batches, and damaged ones named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.data.image_sets import pictures, write_dataset
from tests.data.test_parquet import png
from tread_bench.contract import check_data
from tread_bench.core.describe.data_sources import find_data_source
from tread_bench.core.errors import UserError
from tread_bench.data.check import data_problems
from tread_bench.data.hf_dataset.family import HfDatasetData
from tread_bench.data.images import encoded
from tread_bench.data.open import open_data

HF_DATASET = find_data_source("hf_dataset")


def choice(*train: str, **more: Any) -> HfDatasetData:
    return HfDatasetData(train=train, **{"image_size": 4, "num_classes": 3, **more})


@pytest.fixture
def pets(tmp_path: Path) -> str:
    return write_dataset(tmp_path / "pets", 45)


def test_rows_come_in_their_order_over_files_and_batches(pets: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(encoded, "MOST_BYTES", 0)
    data = open_data(choice(pets, held_out=(pets,)))
    assert data.train.labels(np.arange(45)).tolist() == [number % 3 for number in range(45)]
    images = pictures(45, 0)
    square = [number for number, image in enumerate(images) if image.shape[:2] == (4, 4)]
    assert square  # which no crop changes
    for number in square:
        assert np.array_equal(data.train.uint8(np.array([number]))[0], images[number].transpose(2, 0, 1))


def test_the_contract_holds_on_demand(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(encoded, "MOST_BYTES", 0)
    options, changed = (
        {"train": [write_dataset(tmp_path / f"{seed}", 80, seed)], "image_size": 4, "num_classes": 3} for seed in (0, 1)
    )
    assert check_data(HF_DATASET, options, changed=changed) == []


def first_file(folder: Path) -> Path:
    return min(folder.glob("*.arrow"))


def state(folder: Path, value: Any) -> None:
    (folder / "state.json").write_text(json.dumps(value))


def cut(path: Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:size])


def places_beyond_the_file(folder: Path) -> None:
    """In the first batch, the second image begins where there is no file any more."""
    sizes = [len(png(image)["bytes"]) for image in pictures(45, 0)[:16]]
    places = np.cumsum([0, *sizes], dtype=np.int32)
    path = first_file(folder)
    content = path.read_bytes()
    assert content.count(places.tobytes()) == 1
    wrong = places.copy()
    wrong[1] = 2**30
    path.write_bytes(content.replace(places.tobytes(), wrong.tobytes()))


HARMS: dict[str, tuple[Any, str]] = {
    "not a data set": (lambda folder: (folder / "state.json").unlink(), "not a data set of Hugging Face's `datasets`"),
    "splits": (
        lambda folder: (folder / "dataset_dict.json").write_text('{"splits": ["train", "test"]}'),
        "a folder of data sets; name one of them: train, test",
    ),
    "no JSON": (lambda folder: (folder / "state.json").write_text("{"), "not a readable JSON file"),
    "other JSON": (lambda folder: state(folder, [1]), "not a JSON object"),
    "no files": (lambda folder: state(folder, {}), "`_data_files` does not list files beside it"),
    "elsewhere": (lambda folder: state(folder, {"_data_files": [{"filename": "../x"}]}), "files beside it"),
    "odd": (lambda folder: state(folder, {"_data_files": [{"filename": 5}]}), "files beside it"),
    "gone": (lambda folder: first_file(folder).unlink(), "no such file, and state.json beside it names it"),
    "cut off": (lambda folder: cut(first_file(folder), 3000), "not a readable Arrow stream"),
    "places": (places_beyond_the_file, ".arrow: cannot be read: "),
    "empty": (lambda folder: cut(first_file(folder), 0), "not a readable Arrow stream"),
}


@pytest.mark.parametrize(("harm", "message"), HARMS.values(), ids=HARMS.keys())
def test_a_damaged_data_set_is_named(pets: str, harm: Any, message: str) -> None:
    harm(Path(pets))
    (found,) = data_problems([(choice(pets), True)])
    assert found.startswith(pets) and message in found
    with pytest.raises(UserError, match=pets):
        open_data(choice(pets))


def test_a_class_without_an_image_is_named(pets: str) -> None:
    (found,) = data_problems([(choice(pets, num_classes=5), True)])
    assert found.startswith("data.num_classes 5: no training sample has classes 3, 4, and images are generated")
    assert data_problems([(choice(pets, num_classes=5), False)]) == []


def test_every_header_is_read_where_that_is_requested(tmp_path: Path) -> None:
    sets = [write_dataset(tmp_path / f"{name}", 45, seed) for seed, name in enumerate(("train", "held_out"))]
    options = choice(sets[0], held_out=(sets[1],), image_size=5)
    found = data_problems([(options, True)], reads_everything=True)
    for seed, folder in enumerate(sets):
        small = [number for number, image in enumerate(pictures(45, seed)) if min(image.shape[:2]) < 5]
        assert len(small) > 3
        told = [message for message in found if message.startswith(folder)]
        assert told[-1] == f"{folder}: {len(small)} of 45 images cannot be used; the first 3 are named"
        for number in small[:3]:
            file, row = divmod(number, 23)
            assert any(f"data-0000{file}-of-00002.arrow, row {row}: image of " in message for message in told)


def test_too_few_images_to_hold_some_out(tmp_path: Path) -> None:
    options = choice(write_dataset(tmp_path / "few", 9))
    with pytest.raises(UserError, match=r"9 images, where every tenth is held out: name others under data\.held_out"):
        open_data(options)
    (found,) = data_problems([(options, True)])
    assert found.startswith(f"{tmp_path / 'few'}: 9 images")


def test_a_label_out_of_range_is_named_with_its_row(pets: str) -> None:
    with pytest.raises(
        UserError, match=r"data-00000-of-00002\.arrow, row 2: label 2 where data\.num_classes allows 0 to 1"
    ):
        open_data(choice(pets, num_classes=2))


def test_an_image_that_fails_is_named_with_its_row(pets: str) -> None:
    with pytest.raises(UserError, match=r"\.arrow, row \d+: image of \dx\d pixels where data\.image_size is 6"):
        open_data(choice(pets, image_size=6))
