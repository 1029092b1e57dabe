"""Parquet files as Hugging Face writes them, and one clear error for each way in which they can be wrong."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from tread_bench.core.errors import UserError
from tread_bench.data.check import data_problems
from tread_bench.data.open import open_data
from tread_bench.data.parquet.family import ParquetData
from tread_bench.data.source import DataSource

SIDE = 4
KIND = pa.struct([("bytes", pa.binary()), ("path", pa.string())])  # of a column of images
RANDOM = np.random.default_rng(0)
COLOUR = RANDOM.integers(0, 256, (5, SIDE, SIDE, 3), dtype=np.uint8)
GREY = RANDOM.integers(0, 256, (5, SIDE, SIDE), dtype=np.uint8)


def png(array: Any) -> dict[str, Any]:
    buffer = io.BytesIO()
    Image.fromarray(array).save(buffer, "PNG")
    return {"bytes": buffer.getvalue(), "path": None}


def write(path: Path, images: list[Any], labels: list[Any] | None, image_column: str = "image") -> str:
    columns = {image_column: pa.array(images, KIND)}
    if labels is not None:
        columns["label"] = pa.array(labels, pa.int64())
    pq.write_table(pa.table(columns), path, row_group_size=2)
    return str(path)


def read(train: str, *more: str, num_classes: int = 3, **choice: Any) -> DataSource:
    return open_data(
        ParquetData(
            name="parquet",
            train=(train, *more),
            held_out=(train,),
            image_size=SIDE,
            num_classes=num_classes,
            **choice,
        )
    )


def test_images_and_labels_come_back_in_order_over_several_files(tmp_path: Path) -> None:
    first = write(tmp_path / "a.parquet", [png(image) for image in COLOUR[:3]], [0, 1, 2])
    second = write(tmp_path / "b.parquet", [png(image) for image in COLOUR[3:]], [2, 0])
    data = read(first, second)
    assert np.array_equal(data.train.pixels, COLOUR.transpose(0, 3, 1, 2))
    assert data.train.classes.tolist() == [0, 1, 2, 2, 0]
    assert len(data.held_out) == 3
    assert data.sha256 != read(first).sha256


def test_grey_images_in_one_channel_or_repeated_to_three(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", [png(image) for image in GREY], [0] * 5)
    assert np.array_equal(read(path, channels=1).train.pixels, GREY[:, None])
    assert np.array_equal(read(path).train.pixels, np.repeat(GREY[:, None], 3, axis=1))


def test_without_labels_no_label_column_is_needed(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", [png(image) for image in COLOUR], None)
    data = read(path, num_classes=0)
    assert data.num_classes == 0
    assert data.train.labels(np.array([0, 4])).tolist() == [0, 0]


def test_folders_and_globs_of_files(tmp_path: Path) -> None:
    for number, image in enumerate(COLOUR[:3]):
        (tmp_path / "train" / str(number % 2)).mkdir(parents=True, exist_ok=True)
        write(tmp_path / "train" / str(number % 2) / f"{number}.parquet", [png(image)], [number])
    for entry in ("train", "train/*/*.parquet"):
        data = read(str(tmp_path / entry))
        assert data.train.classes.tolist() == [0, 2, 1]
        assert np.array_equal(data.train.pixels[1], COLOUR[2].transpose(2, 0, 1))


def test_a_set_that_does_not_fit_into_memory_is_refused_with_a_way_out(tmp_path: Path, monkeypatch: Any) -> None:
    path = write(tmp_path / "a.parquet", [png(image) for image in COLOUR], [0] * 5)
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=2 * 5 * 56 - 1))
    with pytest.raises(UserError, match=r"10 decoded images need 0\.0 GiB of memory.*data hf_dataset.*image_folder"):
        read(path)


def test_other_column_names(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", [png(COLOUR[0])], [1], image_column="img")
    assert len(read(path, image_column="img").train) == 1
    with pytest.raises(UserError, match=r"no columns are called 'image'; it has img, label: set data\.image_column"):
        read(path)


WRONG = {
    "no image": ({"bytes": b"no image", "path": None}, 0, "not a readable image"),
    "path alone": ({"bytes": None, "path": "a.png"}, 0, "image has no image bytes"),
    "null": (None, 0, "image has no image bytes"),
    "label": (png(COLOUR[0]), 3, "label 3 where data.num_classes allows 0 to 2"),
    "negative": (png(COLOUR[0]), -1, "label -1 where"),
    "no label": (png(COLOUR[0]), None, "label None where"),
}


@pytest.mark.parametrize(("image", "label", "message"), WRONG.values(), ids=WRONG.keys())
def test_a_wrong_row_is_named_with_its_file_and_rule(tmp_path: Path, image: Any, label: Any, message: str) -> None:
    path = write(tmp_path / "a.parquet", [png(COLOUR[0]), png(COLOUR[1]), png(COLOUR[2]), image], [0, 1, 2, label])
    with pytest.raises(UserError, match=message) as raised:
        read(path)
    assert str(raised.value).startswith(f"{path}, row 3: ")


IMAGES = pa.array([png(COLOUR[0])], KIND)
WRONG_COLUMNS = {
    "text": (
        [("image", pa.array([{"bytes": "x"}])), ("label", pa.array([0]))],
        "column 'image' is struct<bytes: string>",
    ),
    "floats": ([("image", IMAGES), ("label", pa.array([0.5]))], "column 'label' is double, not integers"),
    "booleans": ([("image", IMAGES), ("label", pa.array([True]))], "column 'label' is bool, not integers"),
    "two of images": ([("image", IMAGES), ("image", IMAGES), ("label", pa.array([0]))], "2 columns are called 'image'"),
    "two of labels": (
        [("image", IMAGES), ("label", pa.array([0])), ("label", pa.array([0]))],
        "2 columns are called 'label'",
    ),
}


@pytest.mark.parametrize(("columns", "message"), WRONG_COLUMNS.values(), ids=WRONG_COLUMNS.keys())
def test_a_wrong_column_is_named_with_its_file(tmp_path: Path, columns: Any, message: str) -> None:
    names, arrays = zip(*columns, strict=True)
    pq.write_table(pa.Table.from_arrays(list(arrays), list(names)), tmp_path / "a.parquet")
    with pytest.raises(UserError, match=message) as raised:
        read(str(tmp_path / "a.parquet"))
    assert str(raised.value).startswith(f"{tmp_path / 'a.parquet'}: ")


def test_a_corrupt_page_is_named_with_its_file_and_rows(tmp_path: Path) -> None:
    path = Path(write(tmp_path / "a.parquet", [png(image) for image in COLOUR], [0] * 5))
    second = pq.ParquetFile(path).metadata.row_group(1).column(0)
    content = bytearray(path.read_bytes())
    start = second.dictionary_page_offset or second.data_page_offset
    content[start : start + second.total_compressed_size] = b"\xff" * second.total_compressed_size
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"a\.parquet, rows from 0 on: cannot be read"):
        read(str(path))


def test_one_of_several_files_may_be_empty(tmp_path: Path) -> None:
    empty, full = write(tmp_path / "a.parquet", [], []), write(tmp_path / "b.parquet", [png(COLOUR[0])] * 3, [0, 1, 2])
    choice = ParquetData(train=(empty, full), held_out=(full,), image_size=SIDE, num_classes=3)
    assert data_problems([(choice, True)]) == []
    assert len(open_data(choice).train) == 3


def test_files_that_are_no_image_tables(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none\.parquet cannot be read \(No such file"):
        read(str(tmp_path / "none.parquet"))
    (tmp_path / "text.parquet").write_text("image,label\n")
    with pytest.raises(UserError, match=r"text\.parquet: not a readable Parquet file"):
        read(str(tmp_path / "text.parquet"))
    with pytest.raises(UserError, match="no rows"):
        read(write(tmp_path / "empty.parquet", [], []))
    pq.write_table(pa.table({"image": [b"bytes"], "label": [0]}), tmp_path / "plain.parquet")
    with pytest.raises(UserError, match="column 'image' is binary, not Hugging Face's image schema"):
        read(str(tmp_path / "plain.parquet"))
