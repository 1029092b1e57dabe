"""Folders of Hugging Face's `datasets`: rows in order over files and batches, and damaged ones named."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from datasets import DatasetDict, load_from_disk

from tests.data.image_sets import cropped, pictures, write_dataset
from tests.data.test_parquet import png
from tread_bench.core.describe.data_sources import data_sources
from tread_bench.core.errors import UserError
from tread_bench.data.check import data_problems
from tread_bench.data.hf_dataset.family import HfDatasetData
from tread_bench.data.images import encoded
from tread_bench.data.source import open_data

HF_DATASET = data_sources.find("hf_dataset")


def choice(*train: str, **more: Any) -> HfDatasetData:
    return HfDatasetData(train=train, **{"image_size": 4, "num_classes": 3, **more})


@pytest.fixture
def pets(tmp_path: Path) -> str:
    return write_dataset(tmp_path / "pets", 45)


def test_rows_come_in_their_order_over_files(pets: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(encoded, "MOST_BYTES", 0)
    train = open_data(choice(pets, held_out=(pets,))).train
    assert train.labels(np.arange(45)).tolist() == [number % 3 for number in range(45)]
    assert np.array_equal(train.uint8(np.arange(45)), cropped(45, 0))


@pytest.mark.parametrize("by", ["datasets 1", "datasets 4"])
def test_the_rows_that_were_selected_are_read_in_their_order(tmp_path: Path, by: str) -> None:
    whole, path = write_dataset(tmp_path / "whole", 36), tmp_path / "selected"
    chosen = [30, 4, 17, *range(9, 18)]
    if by == "datasets 4":
        load_from_disk(whole).select(chosen).save_to_disk(path)
    else:  # all rows, and the indices of those that were selected
        shutil.copytree(whole, path)
        indices = pa.table({"indices": pa.array(chosen, pa.uint64())})
        with pa.OSFile(str(path / "indices.arrow"), "wb") as file, pa.ipc.new_stream(file, indices.schema) as writer:
            writer.write_table(indices)
        state = json.loads((path / "state.json").read_text())
        (path / "state.json").write_text(json.dumps(state | {"_indices_data_files": [{"filename": "indices.arrow"}]}))
    assert HF_DATASET.counts(choice(str(path))) == (11, 1)
    data = open_data(choice(str(path), held_out=(whole,)))
    assert data.train.labels(np.arange(12)).tolist() == [number % 3 for number in chosen]
    assert torch.equal(data.train.uint8(np.arange(12)), data.held_out.uint8(np.array(chosen)))


def test_a_parquet_file_is_read_as_it_is_now_and_by_its_own_name(pets: str, tmp_path: Path) -> None:
    """Hugging Face's copy of a file is known by its time, and a name may read as a pattern."""
    path, other = tmp_path / "b[1].parquet", tmp_path / "b1.parquet"
    rows = load_from_disk(pets)
    rows.to_parquet(str(path))
    rows.select(range(5)).to_parquet(str(other))
    first = open_data(choice(str(path), held_out=(pets,))).train.uint8(np.arange(45))
    times = path.stat()
    rows.select(range(len(rows) - 1, -1, -1)).to_parquet(str(path))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert torch.equal(open_data(choice(str(path), held_out=(pets,))).train.uint8(np.arange(45)), first.flip(0))


def test_neither_a_script_nor_a_network_is_used(pets: str, tmp_path: Path, monkeypatch: Any) -> None:
    path = str(tmp_path / "pets.parquet")
    load_from_disk(pets).to_parquet(path)
    for folder in (tmp_path, Path(pets)):
        for name in ("pets.py", "dataset.py", "__init__.py"):
            (folder / name).write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nraise SystemExit")

    def refuse(*_: Any) -> None:
        raise AssertionError("a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    for entry in (pets, path):
        assert data_problems([(choice(entry), True)]) == []
        assert len(open_data(choice(entry)).train) == 41
    assert not (tmp_path / "ran").exists()
    (found,) = data_problems([(choice("cifar10"), True)])
    assert found.startswith("cifar10: no such file or folder")


def splits(folder: Path) -> None:
    whole = load_from_disk(folder)
    DatasetDict({"train": whole, "test": whole}).save_to_disk(folder)
    (folder / "state.json").unlink()


def places_beyond_the_file(folder: Path) -> None:
    """The second image begins where there is no file any more."""
    path = min(folder.glob("*.arrow"))
    places = np.cumsum([0, *(len(png(image)["bytes"]) for image in pictures(45, 0)[:23])], dtype=np.int32)
    before, places[1] = places.tobytes(), 2**30
    path.write_bytes(path.read_bytes().replace(before, places.tobytes()))


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (lambda folder: (folder / "state.json").unlink(), "neither a `Dataset` directory nor"),
        (lambda folder: (folder / "state.json").write_text("{"), "cannot be read"),
        (splits, "a folder of data sets; name one of them: train, test"),
        (places_beyond_the_file, ": cannot be read: "),
    ],
)
def test_a_damaged_data_set_is_named(pets: str, harm: Any, message: str) -> None:
    harm(Path(pets))
    (found,) = data_problems([(choice(pets), True)])
    assert found.startswith(pets) and message in found


def test_without_the_package_its_extra_is_named(pets: str, monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(UserError, match=r"pip install 'tread-bench\[hf\]'"):
        open_data(choice(pets))
