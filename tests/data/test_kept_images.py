"""Decoded images of a run: decoded once, the same bits with and without, and never trusted when damaged."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests.data.test_parquet import COLOUR, png, write
from tests.model.methods.subjects import cell_of
from tread_bench.cell.open import Job
from tread_bench.core.stored import decoded
from tread_bench.data.digits.family import DigitsData
from tread_bench.data.images import kept
from tread_bench.data.open import open_data
from tread_bench.data.parquet import source as parquet
from tread_bench.data.parquet.family import ParquetData
from tread_bench.runner import folder as store
from tread_bench.runner.folder import RunFolder


@pytest.fixture
def choice(tmp_path) -> ParquetData:
    paths = {
        name: (write(tmp_path / f"{name}.parquet", [png(image) for image in images], labels),)
        for name, images, labels in (("train", COLOUR[:3], [0, 1, 2]), ("held_out", COLOUR[3:], [2, 0]))
    }
    return ParquetData(name="parquet", image_size=4, num_classes=3, **paths)


@pytest.fixture
def run(tmp_path) -> RunFolder:
    folder = RunFolder(tmp_path / "run")
    folder.root.mkdir()
    return folder


@pytest.fixture
def decodings(monkeypatch) -> list[int]:
    """Grows with every image that is decoded."""
    done: list[int] = []
    decode = parquet.decode
    monkeypatch.setattr(parquet, "decode", lambda *arguments: done.append(1) or decode(*arguments))
    return done


def files(run: RunFolder) -> list[Path]:
    return sorted(run.decoded.glob("*"))


def test_images_are_decoded_once_and_are_the_same_bits(choice, run, decodings):
    alone = open_data(choice)
    first, second = (open_data(choice, run.decoded) for _ in range(2))
    assert len(decodings) == 2 * 5
    for source in (first, second):
        assert source.sha256 == alone.sha256 and source.num_classes == 3
        assert np.array_equal(source.train.pixels, alone.train.pixels)
        assert np.array_equal(source.held_out.classes, alone.held_out.classes)
    assert len(files(run)) == 1


def test_a_cell_keeps_what_it_decodes_in_its_run_folder(choice, run):
    request = SimpleNamespace(configuration=cell_of("dense").model_copy(update={"data": choice}))
    assert Job(run, request, SimpleNamespace()).data.sha256 == open_data(choice).sha256
    assert len(files(run)) == 1


def test_what_is_read_is_mapped_into_memory(choice, run):
    open_data(choice, run.decoded)
    source = open_data(choice, run.decoded)
    assert str(files(run)[0]) in Path("/proc/self/maps").read_text()
    assert len(source.train) == 3


DAMAGES = {
    "a bit": lambda content: content[:-20] + bytes([content[-20] ^ 1]) + content[-19:],
    "cut off": lambda content: content[:-1],
    "empty": lambda content: b"",
    "foreign": lambda content: b"mine",
    "header": lambda content: content.replace(b"train.pixels", b"brain.pixels"),
    "shape": lambda content: content.replace(b'"shape":[3,3,4,4]', b'"shape":[3,3,2,8]'),
    "key": lambda content: content.replace(b'"key":"', b'"kex":"'),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_a_damaged_file_is_decoded_again(choice, run, decodings, damage):
    whole = open_data(choice, run.decoded).sha256
    (path,) = files(run)
    content = path.read_bytes()
    assert damage(content) != content
    path.write_bytes(damage(content))
    assert open_data(choice, run.decoded).sha256 == whole
    assert len(decodings) == 2 * 5 and files(run) == [path]
    assert open_data(choice, run.decoded).sha256 == whole
    assert len(decodings) == 2 * 5, "what was decoded again is kept"


def test_what_decoding_depends_on_is_in_the_name(choice, run, decodings, tmp_path):
    write(tmp_path / "other.parquet", [png(image) for image in COLOUR], [0] * 5)
    others = (
        {"num_classes": 4},
        {"num_classes": 0},
        {"train": (str(tmp_path / "other.parquet"),)},
        {"held_out": choice.train, "train": choice.held_out},
    )
    for change in ({}, *others, {"horizontal_flip": True}):
        changed = choice.model_copy(update=change)
        assert open_data(changed, run.decoded).sha256 == open_data(changed).sha256
    assert len(files(run)) == 1 + len(others)  # flips are drawn later


def test_one_decodes_and_the_others_wait(choice, run, monkeypatch):
    reading, is_second_there, sources, decoded_now = threading.Event(), threading.Event(), [], []
    decode = parquet.decode

    def slow(*arguments):
        decoded_now.append(1)
        reading.set()
        assert is_second_there.wait(20)
        others[1].join(0.05)  # time to decode as well, if it did not wait
        return decode(*arguments)

    monkeypatch.setattr(parquet, "decode", slow)
    others = [threading.Thread(target=lambda: sources.append(open_data(choice, run.decoded))) for _ in range(2)]
    others[0].start()
    assert reading.wait(20)
    others[1].start()
    is_second_there.set()
    for other in others:
        other.join(60)
    assert len(decoded_now) == 5 and len(sources) == 2
    assert sources[0].sha256 == sources[1].sha256


def test_what_exceeds_the_limit_is_not_kept_and_that_is_said_once(choice, run, monkeypatch, caplog):
    size = choice.family.decoded_bytes(choice)
    assert size == 5 * (3 * 4 * 4 + 8)
    monkeypatch.setattr(decoded, "MOST_BYTES", size - 1)
    assert open_data(choice, run.decoded).sha256 == open_data(choice).sha256
    assert not files(run)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "not kept" in caplog.text


def test_the_limit_is_one_of_the_run(choice, run, monkeypatch):
    open_data(choice, run.decoded)
    (path,) = files(run)
    monkeypatch.setattr(decoded, "MOST_BYTES", path.stat().st_size + choice.family.decoded_bytes(choice) - 1)
    open_data(choice.model_copy(update={"num_classes": 4}), run.decoded)
    assert files(run) == [path]


def test_a_full_disk_costs_time_alone(choice, run, monkeypatch):
    def full(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(store.os, "fsync", full)
    assert len(open_data(choice, run.decoded).train) == 3
    assert not files(run)


def test_files_that_change_while_they_are_decoded_are_not_kept(choice, run, monkeypatch, tmp_path):
    decode, other = parquet.decode, write(tmp_path / "other.parquet", [png(COLOUR[0])], [0])

    def change(*arguments):
        if os.path.exists(other):
            os.replace(other, tmp_path / "held_out.parquet")
        return decode(*arguments)

    monkeypatch.setattr(parquet, "decode", change)
    open_data(choice, run.decoded)
    assert not files(run)


def test_what_needs_no_decoding_leaves_nothing(run):
    open_data(DigitsData(), run.decoded)
    assert not list(run.root.iterdir())


def test_without_a_run_nothing_is_kept(choice, monkeypatch):
    monkeypatch.setattr(kept, "_save", lambda *arguments: pytest.fail("written"))
    assert len(open_data(choice).train) == 3


def test_clean_names_and_removes_them_and_nothing_else(choice, run):
    open_data(choice, run.decoded)
    (path,) = files(run)
    assert run.removable() == [path]
    mine = run.decoded / "notes.txt"
    mine.write_text("mine")
    run.remove(run.removable())
    assert files(run) == [mine]
    mine.unlink()
    run.remove(run.removable())
    assert not run.decoded.exists()
    assert len(open_data(choice, run.decoded).train) == 3 and files(run) == [path]
