"""Parquet files as Hugging Face writes them, and one clear error for each way in which they can be wrong."""

from __future__ import annotations

import io
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from tread_bench.core.errors import UserError
from tread_bench.core.stored import data_files
from tread_bench.data.check import absent_classes, data_problems, messages_of
from tread_bench.data.images import encoded
from tread_bench.data.parquet.family import ParquetData
from tread_bench.data.source import DataSource, open_data

SIDE = 4
KIND = pa.struct([("bytes", pa.binary()), ("path", pa.string())])  # of a column of images
RANDOM = np.random.default_rng(0)
COLOUR = RANDOM.integers(0, 256, (5, SIDE, SIDE, 3), dtype=np.uint8)
GREY = RANDOM.integers(0, 256, (5, SIDE, SIDE), dtype=np.uint8)


def png(array: Any) -> dict[str, Any]:
    buffer = io.BytesIO()
    Image.fromarray(array).save(buffer, "PNG")
    return {"bytes": buffer.getvalue(), "path": None}


PNGS = [png(image) for image in COLOUR]


def write(path: Path, images: list[Any], labels: list[Any] | None, image_column: str = "image") -> str:
    columns = {image_column: pa.array(images, KIND)}
    if labels is not None:
        columns["label"] = pa.array(labels, pa.int64())
    pq.write_table(pa.table(columns), path, row_group_size=2)
    return str(path)


def choice(train: str, *more: str, **settings: Any) -> ParquetData:
    about = {"held_out": (train,), "image_size": SIDE, "num_classes": 3, **settings}
    return ParquetData(train=(train, *more), **about)


def read(*train: str, **settings: Any) -> DataSource:
    return open_data(choice(*train, **settings))


def test_images_and_labels_come_back_in_order_over_several_files(tmp_path: Path) -> None:
    first = write(tmp_path / "a.parquet", PNGS[:3], [0, 1, 2])
    second = write(tmp_path / "b.parquet", PNGS[3:], [2, 0])
    data = read(first, second)
    assert np.array_equal(data.train.pixels, COLOUR.transpose(0, 3, 1, 2))
    assert data.train.classes.tolist() == [0, 1, 2, 2, 0] and len(data.held_out) == 3
    assert read(str(tmp_path / "*.parquet")).train.classes.tolist() == [0, 1, 2, 2, 0]
    assert data.sha256 != read(first).sha256


def test_grey_images_in_one_channel_or_repeated_to_three(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", [png(image) for image in GREY], [0] * 5)
    assert np.array_equal(read(path, channels=1).train.pixels, GREY[:, None])
    assert np.array_equal(read(path).train.pixels, np.repeat(GREY[:, None], 3, axis=1))


def test_without_labels_no_label_column_is_needed_and_images_may_be_in_another(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", PNGS, None, image_column="img")
    data = read(str(tmp_path), num_classes=0, image_column="img", held_out=(str(tmp_path / "*.parquet"),))
    assert data.train.labels(np.array([0, 4])).tolist() == [0, 0]


def test_a_set_that_does_not_fit_into_memory_is_refused_with_a_way_out(tmp_path: Path, monkeypatch: Any) -> None:
    path = write(tmp_path / "a.parquet", PNGS, [0] * 5)
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=2 * 5 * 56 - 1))
    with pytest.raises(UserError, match=r"10 decoded images need 0\.0 GiB of memory.*data hf_dataset.*image_folder"):
        read(path)


WRONG = {
    "no image": ({"bytes": b"no image", "path": None}, 0, "not a readable image"),
    "path alone": ({"bytes": None, "path": "a.png"}, 0, "image has no image bytes"),
    "null": (None, 0, "image has no image bytes"),
    "label": (PNGS[0], 3, "label 3 where data.num_classes allows 0 to 2"),
    "negative": (PNGS[0], -1, "label -1 where"),
    "no label": (PNGS[0], None, "label None where"),
}


@pytest.mark.parametrize(("image", "label", "message"), WRONG.values(), ids=WRONG.keys())
def test_a_wrong_row_is_named_with_its_file_and_rule(tmp_path: Path, image: Any, label: Any, message: str) -> None:
    path = write(tmp_path / "a.parquet", [*PNGS[:3], image], [0, 1, 2, label])
    with pytest.raises(UserError, match=rf"^{path}, row 3: .*{message}"):
        read(path)


IMAGES = pa.array(PNGS[:1], KIND)
LABEL = ("label", pa.array([0]))
WRONG_COLUMNS = {
    "text": ([("image", pa.array([{"bytes": "x"}])), LABEL], "column 'image' is struct<bytes: string>"),
    "bytes": ([("image", pa.array([b"bytes"])), LABEL], "column 'image' is binary, not Hugging Face's image schema"),
    "floats": ([("image", IMAGES), ("label", pa.array([0.5]))], "column 'label' is double, not integers"),
    "none": ([("img", IMAGES), LABEL], "no columns are called 'image'; it has img, label: set data.image_column"),
    "two": ([("image", IMAGES), LABEL, LABEL], "2 columns are called 'label'"),
}


@pytest.mark.parametrize(("columns", "message"), WRONG_COLUMNS.values(), ids=WRONG_COLUMNS.keys())
def test_a_wrong_column_is_named_with_its_file(tmp_path: Path, columns: Any, message: str) -> None:
    names, arrays = zip(*columns, strict=True)
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.Table.from_arrays(list(arrays), list(names)), path)
    with pytest.raises(UserError, match=rf"^{path}: .*{message}"):
        read(path)


def test_a_corrupt_page_is_named_with_its_file_and_rows(tmp_path: Path) -> None:
    path = Path(write(tmp_path / "a.parquet", PNGS, [0] * 5))
    second = pq.ParquetFile(path).metadata.row_group(1).column(0)
    content = bytearray(path.read_bytes())
    start = second.dictionary_page_offset or second.data_page_offset
    content[start : start + second.total_compressed_size] = b"\xff" * second.total_compressed_size
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"a\.parquet, rows from 0 on: cannot be read"):
        read(str(path))


def test_the_first_image_of_every_file_is_looked_at_and_one_may_be_empty(tmp_path: Path) -> None:
    full, empty = write(tmp_path / "a.parquet", PNGS[:3], [0, 1, 2]), write(tmp_path / "b.parquet", [], [])
    assert (
        data_problems([(choice(empty, full, held_out=(full,)), True)]) == []
        and len(read(empty, full, held_out=(full,)).train) == 3
    )
    bad = write(tmp_path / "c.parquet", [{"bytes": b"no image", "path": None}] * 2, [0, 1])
    (found,) = data_problems([(choice(full, empty, bad), True)])
    assert found.startswith(f"{bad}, row 0: not a readable image")


def test_files_that_are_no_image_tables(tmp_path: Path) -> None:
    (tmp_path / "text.parquet").write_text("image,label\n")
    write(tmp_path / "empty.parquet", [], [])
    told = {"none": r" cannot be read \(No such file", "text": ": not a readable Parquet file", "empty": ": no rows"}
    for name, message in told.items():
        with pytest.raises(UserError, match=rf"{name}\.parquet{message}"):
            read(str(tmp_path / f"{name}.parquet"))


# ---- checks before anything is trained


def test_files_without_a_mistake_are_read_again_only_when_one_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    good = write(tmp_path / "good.parquet", PNGS, [0, 1, 2, 0, 1])
    read = []
    monkeypatch.setattr(encoded, "file_problems", lambda options, generates: read.append(found := []) or found)
    checked = [(choice(good), True)]
    assert data_problems(checked) == data_problems(checked) == [] and len(read) == 2  # just written: may change again
    monkeypatch.setattr(data_files, "SETTLED_S", -1.0)
    for times in (3, 4):
        os.utime(good)
        assert data_problems(checked) == data_problems(checked) == [] and len(read) == times
    monkeypatch.setattr(encoded, "file_problems", lambda options, generates: read.append(found := ["bad"]) or found)
    os.utime(good)
    assert data_problems(checked) == data_problems(checked) == ["bad"] and len(read) == 6


def test_a_check_that_reads_no_files_looks_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What else it depends on, such as an installed package, is not part of the cache's key."""
    for found in ([], ["not installed"]):
        monkeypatch.setattr(f"{__name__}.package_problems", found.copy, raising=False)
        assert messages_of(f"{__name__}:package_problems", (), []) == found


def test_classes_that_do_not_occur_are_named():
    assert list(absent_classes(np.array([0, 1, 2, 1]), 3)) == list(absent_classes(np.zeros(4, np.int64), 0)) == []
    (message,) = absent_classes(np.array([0, 2, 9]), 10)
    assert message.startswith("data.num_classes 10: no training sample has classes 1, 3, 4 and 4 more, and images")
    assert "has class 1, and" in next(absent_classes(np.array([0, 2]), 3))
