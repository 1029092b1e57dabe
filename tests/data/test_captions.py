"""Captions wherever people keep them: the same draws and features, each mistake with its place, and hostile text."""

from __future__ import annotations

import json
import logging
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

from tests.data.captioned import COUNTS, LAYOUTS, captions_of, options, with_metadata, write_table
from tread_bench.core.describe.data_sources import DataOptions
from tread_bench.core.errors import UserError
from tread_bench.data.check import data_problems
from tread_bench.data.source import CaptionedSplit, open_data
from tread_bench.data.text.words.family import WordsOptions

INDEX = np.arange(64) * 3
TEMPLATE = {"template": "a photo of a {class}"}


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> DataOptions:
    return with_metadata(tmp_path_factory.mktemp("reference") / "coco")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_has_the_same_draws_and_features(layout: str, reference: DataOptions, tmp_path: Path) -> None:
    here, there = open_data(LAYOUTS[layout](tmp_path / layout)), open_data(reference)
    assert (len(here.train), len(here.held_out)) == tuple(COUNTS.values())
    for part, other in ((here.train, there.train), (here.held_out, there.held_out)):
        index = INDEX % len(part)
        assert isinstance(part, CaptionedSplit) and isinstance(other, CaptionedSplit)
        assert part.captions(index, 5, 100) == other.captions(index, 5, 100)
        assert torch.equal(part.text(index, 5, 100), other.text(index, 5, 100))
        assert torch.equal(part.images(index), other.images(index))
    found = here.train.captions(INDEX, 5, 100)
    assert all(caption in captions_of("train", number) for caption, number in zip(found, INDEX, strict=True))


def test_a_caption_is_drawn_uniformly_by_seed_and_sample_number_alone(reference: DataOptions) -> None:
    part = open_data(reference).train
    same = np.full(5000, 3)
    drawn = part.captions(same, 0, 0)
    counts = Counter(drawn)
    assert set(counts) == set(captions_of("train", 3))
    assert all(abs(count - 1000) < 5 * np.sqrt(5000 * 0.2 * 0.8) for count in counts.values())
    assert drawn[700:800] == part.captions(same[:100], 0, 700)
    assert drawn[:100] != part.captions(same[:100], 1, 0)
    assert part.captions(same[:1], 0, 42) == [drawn[42]]


def test_another_caption_or_encoder_is_another_fingerprint(tmp_path: Path) -> None:
    choice = with_metadata(tmp_path / "coco")
    before = open_data(choice).sha256
    for change in ({"encoder": WordsOptions(tokens=5)}, {"dtype": "float16"}):
        other = choice.captions.model_copy(update=change)
        assert open_data(choice.model_copy(update={"captions": other})).sha256 != before
    path = tmp_path / "coco" / "train2014" / "metadata.jsonl"
    path.write_text(path.read_text().replace("seen 1 times", "seen once"))
    assert open_data(choice).sha256 != before


def test_captions_and_labels_exclude_each_other() -> None:
    with pytest.raises(ValueError, match=r"num_classes 3: captions take the place of labels; set num_classes: 0"):
        options("image_folder", train=["x"], num_classes=3)
    with pytest.raises(ValueError, match=r"'a photo': must contain \{class\}"):
        options("image_folder", {"template": "a photo"}, train=["x"])


def folder(root: Path, names: list[str], lines: list[Any] | None = None) -> str:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8)).save(root / name)
    if lines is not None:
        text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
        (root / "metadata.jsonl").write_text(text, "utf-8", "surrogateescape")
    return str(root)


def problem(choice: Any) -> str:
    """What a check finds, which is what opening reports, too."""
    (found,) = data_problems([(choice, False)])
    with pytest.raises(UserError) as raised:
        open_data(choice)
    assert str(raised.value) == found
    return found


METADATA = {  # a line -> what is told of it
    "empty": ({"file_name": "1.png", "text": ["good", "  "]}, "line 2, text: '  ' is none; a caption is text that is"),
    "another key": ({"file_name": "1.png", "title": "a"}, "line 2: no text; set data.captions.column to one of its"),
    "another image": ({"file_name": "2.png", "text": "a"}, "no caption of 1.png in {path}"),
    "not JSON": ('{"file_name": "1.png", "text" "a"}', "line 2: not JSON (Expecting ':' delimiter"),
    "not UTF-8": ('{"file_name": "\udcff"}', "line 2: not JSON ("),
    "no image": ({"text": "a"}, "line 2: no file_name, the image that it is about"),
}


@pytest.mark.parametrize(("line", "told"), METADATA.values(), ids=METADATA)
def test_a_mistake_in_metadata_is_told_with_its_line(tmp_path: Path, line: Any, told: str) -> None:
    root = folder(tmp_path / "x", ["0.png", "1.png"], [{"file_name": "0.png", "text": "good"}, line])
    path = f"{root}/metadata.jsonl"
    choice = options("image_folder", train=[root], held_out=[root])
    found = problem(choice)
    assert found.startswith(root) and told.format(path=path) in found
    Path(path).unlink()
    assert problem(choice) == f"{path}: no such file; write one, or name COCO's files under data.captions.files"


def test_names_in_metadata_may_be_written_as_on_windows_and_from_the_folder(tmp_path: Path) -> None:
    names = [f"{'cat' if n % 2 else 'dog'}/{n}.png" for n in range(10)]
    forms = ("./{}".format, lambda name: name.replace("/", "\\"), "cat/../{}".format)
    lines = [{"file_name": forms[n % 3](name), "text": name} for n, name in enumerate(names)]
    root = folder(tmp_path / "x", names, lines)
    texts = open_data(options("image_folder", train=[root], held_out=[root])).train.texts.each
    assert sorted(texts) == sorted([name] for name in names)


IMAGE, GOOD = {"id": 1, "file_name": "1.png"}, {"image_id": 1, "caption": "good"}
COCO = {  # images, annotations -> what is told of them
    "empty": ([IMAGE], [GOOD, {"image_id": 1, "caption": ""}], "{path}, annotations[1], caption: '' is none"),
    "another image": ([IMAGE], [{"image_id": 99, "caption": "a"}], "{path}: not images with id and file_name"),
    "no mapping": ([IMAGE], [7], "{path}: not images with id and file_name"),
    "not listed": ([IMAGE | {"file_name": "2.png"}], [GOOD], "{root}/1.png: no caption of 1.png in {path}"),
}


@pytest.mark.parametrize(("images", "annotations", "told"), COCO.values(), ids=COCO)
def test_a_mistake_in_a_file_of_coco_is_told_with_its_place(tmp_path: Path, images: Any, annotations: Any, told: str):
    root, path = folder(tmp_path / "x", ["1.png"]), tmp_path / "captions.json"
    path.write_text(json.dumps({"images": images, "annotations": annotations}))
    choice = options("image_folder", {"files": [str(path)]}, train=[root], held_out=[root])
    assert problem(choice).startswith(told.format(path=path, root=root))
    for content in ('{"images": [],\n "annotations": 3,}', "[" * 100_000):
        path.write_text(content)
        assert problem(choice).startswith(f"{path}: not JSON (")


COLUMNS = {
    "null": (["good", None, " "], "row 1, column 'text': None is none"),
    "no text": ([["good"], []], "row 1, column 'text': [] is none"),
    "numbers": ([1, 2], "row 0, column 'text': 1 is none; a caption is text that is not empty, or a list of such"),
}


@pytest.mark.parametrize(("captions", "told"), COLUMNS.values(), ids=COLUMNS)
def test_a_mistake_in_a_column_is_told_with_its_row(captions: Any, told: str, tmp_path: Path) -> None:
    path = write_table(tmp_path / "a.parquet", "train", text=captions)
    choice = options("parquet", train=[path], held_out=[path])
    assert problem(choice).startswith(f"{path}, {told}")
    other = choice.model_copy(update={"captions": choice.captions.model_copy(update={"column": "caption"})})
    assert "no columns are called 'caption'; it has image, text: set data.captions.column" in problem(other)


def test_captions_from_names_of_classes(tmp_path: Path) -> None:
    root = folder(tmp_path / "x", [f"{name}/{n}.png" for name in ("cat", "dog") for n in range(5)])
    data = open_data(options("image_folder", TEMPLATE, train=[root], held_out=[root]))
    assert data.train.captions(np.arange(10), 0, 0) == ["a photo of a cat"] * 5 + ["a photo of a dog"] * 5
    folder(tmp_path / "x", ["loose.png"])
    message = problem(options("image_folder", TEMPLATE, train=[root], held_out=[root]))
    assert message == f"{root}/loose.png: in no class folder, whose name data.captions.template needs"

    # Names that Hugging Face's libraries keep.
    path = write_table(tmp_path / "a.parquet", "train", label=[1, 0, 1])
    choice = options("parquet", TEMPLATE, train=[path], held_out=[path])
    assert "no names of the classes in column 'label'" in problem(choice)
    about = {"info": {"features": {"label": {"names": ["airplane", "ship"], "_type": "ClassLabel"}}}}
    pq.write_table(pq.read_table(path).replace_schema_metadata({"huggingface": json.dumps(about)}), path)
    expected = ["a photo of a ship", "a photo of a airplane", "a photo of a ship"]
    assert open_data(choice).train.captions(np.arange(3), 0, 0) == expected


HOSTILE = (
    "dog " * 25_000,  # 100,000 characters
    "街の上を歩く二匹の犬",
    "a\x00b\x07c\u202ed\u2028e",
    "{class} %s $data_root",
    "\ud800 half of a pair",
)


def test_hostile_captions_are_kept_as_they_are_and_cut_off_by_the_encoder(tmp_path: Path, caplog: Any) -> None:
    lines = [{"file_name": f"{n}.png", "text": HOSTILE[n % len(HOSTILE)]} for n in range(10)]
    choice = options("image_folder", train=[folder(tmp_path / "x", [f"{n}.png" for n in range(10)], lines)])
    with caplog.at_level(logging.WARNING):
        part = open_data(choice).train
        index = np.arange(9)
        assert part.captions(index, 0, 0) == [HOSTILE[n % len(HOSTILE)] for n in range(9)]
        text = part.text(index, 0, 0)
        part.text(index, 1, 0)
    assert torch.isfinite(text).all() and len(torch.unique(text, dim=0)) == len(HOSTILE)
    expected = "1 of 5 captions are longer than the 24 tokens of text encoder words; the rest of them is cut off"
    assert [record.getMessage() for record in caplog.records] == [expected]  # once

    # What was computed before is not reported again.
    caplog.clear()
    assert torch.equal(open_data(choice).train.text(index, 0, 0), text)
    assert not caplog.records
