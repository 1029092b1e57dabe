"""The run folder: whole files, versions, locks, and what may go."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import shutil
from pathlib import Path

import pytest

from tests.run_folders import put
from tread_bench.core.stored import files
from tread_bench.core.stored.files import StoreError, temporaries, write_atomically
from tread_bench.core.stored.records import SCHEMA_VERSION
from tread_bench.runner.folder import Kept, RunFolder, disk_errors_reported

LEFT = ".tread-bench-ab12cd34.tmp"  # by a writer that was killed
STORED = Path(__file__).parents[1] / "stored"
CELL = "tread-1-2-s0-5561d917c4"  # theirs


@pytest.fixture
def folder(tmp_path):
    return RunFolder(tmp_path)


def place(folder, name, cell=CELL):
    """A document where the folder has it."""
    path = folder.plan_path if name == "plan.json" else folder.cell(cell) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(STORED / name, path)
    return path


def change(path, **keys):
    path.write_text(json.dumps({**json.loads(path.read_text()), **keys}))


def test_what_this_version_writes_it_reads_unchanged(folder):
    place(folder, "record.json")
    record = folder.record(CELL).model_copy(update={"cell": "b"})
    folder.write_record(record)
    assert folder.record("b") == record


@pytest.mark.parametrize("name", ["record.json", "cell.json"])
def test_a_file_of_another_cell_is_refused(folder, name):
    place(folder, name, "other-s0-5561d917c4")
    read = {"record.json": folder.record, "cell.json": folder.request}[name]
    with pytest.raises(StoreError, match=rf"{name} belongs to cell {CELL}, not to other.* Put each back"):
        read("other-s0-5561d917c4")


def test_a_cell_is_forgotten_in_an_order_that_leaves_what_can_be_resumed(folder, monkeypatch):
    made = ["checkpoints/step-000000010.safetensors", "record.json", "weights/10.safetensors", "cell.json"]
    for name in made:
        put(folder.cell(CELL) / name, "here")
    removed, unlink = [], Path.unlink
    monkeypatch.setattr(Path, "unlink", lambda path, **how: removed.append(path) or unlink(path, **how))
    folder.forget(CELL, "row", Kept.NOTHING)
    assert removed == [folder.timing_path("row"), *(folder.cell(CELL) / name for name in made)]
    assert not folder.cell(CELL).exists()


def test_a_plan_from_before_contents_were_hashed_is_read(folder):
    change(place(folder, "plan.json"), files={"a.st": {"bytes": 3, "files": None, "ends_sha256": "0" * 64}})
    assert folder.plan().files["a.st"].bytes == 3


@pytest.mark.parametrize("version", [SCHEMA_VERSION - 1, SCHEMA_VERSION + 1, "2", True])
@pytest.mark.parametrize("name", ["record.json", "plan.json", "cell.json"])
def test_another_format_version_is_refused_with_both_numbers_and_the_way_out(folder, name, version):
    change(place(folder, name), schema_version=version, of_another_version=1)
    read = {"record.json": folder.record, "cell.json": folder.request}
    expected = rf"{name} has format version {version!r}, and this .* reads {SCHEMA_VERSION}: .* run its suite again"
    with pytest.raises(StoreError, match=expected):
        folder.plan() if name == "plan.json" else read[name](CELL)


@pytest.mark.parametrize("content", ["", "{", "[1, 2]", '"text"', "[" * 100_000, '{"schema_version": 2}', "\x00"])
def test_a_damaged_record_is_one_error_that_names_the_file(folder, content):
    path = folder.cell(CELL) / "record.json"
    put(path, content)
    with pytest.raises(StoreError, match=str(path)):
        folder.record(CELL)


@pytest.mark.parametrize(("number", "reason"), [(13, "Permission denied"), (5, "Input/output error")])
def test_a_file_that_the_system_does_not_hand_out_is_not_called_damaged(tmp_path, monkeypatch, number, reason):
    def refuse(path, *arguments, **options):
        raise OSError(number, os.strerror(number), str(path))

    (tmp_path / "cells" / "a").mkdir(parents=True)
    (tmp_path / "cells" / "a" / "record.json").write_text("{}")
    monkeypatch.setattr(files, "read_file", refuse)
    with pytest.raises(StoreError, match=rf"record.json cannot be read \({reason}\); make it readable$"):
        RunFolder(tmp_path).record("a")


def test_a_document_with_a_wrong_part_or_without_one_is_refused(folder):
    change(place(folder, "record.json"), routes="../..")
    with pytest.raises(StoreError, match=r"record.json: routes: .* is not a route"):
        folder.record(CELL)
    put(folder.plan_path, json.dumps({"suite": {}, "cells": []}))
    with pytest.raises(StoreError, match=r"plan.json: .*timing is missing: add it; references is missing"):
        folder.plan()


@pytest.mark.parametrize("cell_id", ["", ".", "..", "a/b", "a\0"])
def test_no_id_leads_out_of_the_folder(folder, cell_id):
    with pytest.raises(StoreError, match="cannot be the id of a cell"):
        folder.records({cell_id: ""})


def test_a_disk_that_fails_is_told_with_the_way_out(tmp_path):
    for number, way_out in (
        (errno.ENOSPC, r"free some space \(`tread-bench clean` "),
        (errno.EROFS, "make the disk wr"),
    ):
        message = rf"record.json: {os.strerror(number)}; what is finished is kept: {way_out}"
        with pytest.raises(StoreError, match=message), disk_errors_reported(tmp_path):
            raise OSError(number, os.strerror(number), "record.json")
    with pytest.raises(StoreError, match="is gone: it was moved or removed"), disk_errors_reported(tmp_path / "gone"):
        raise OSError(errno.ENOENT, "No such file")
    with pytest.raises(PermissionError), disk_errors_reported(tmp_path):
        raise PermissionError(errno.EACCES, "Permission denied")


def test_what_a_killed_writer_leaves_is_found_and_takes_no_name_that_is_read(tmp_path):
    process = multiprocessing.get_context("fork").Process(target=die_while_writing, args=(tmp_path / "record.json",))
    process.start()
    process.join()
    assert process.exitcode == -9
    (left,) = tmp_path.iterdir()
    assert temporaries(tmp_path) == [left]


def die_while_writing(path):
    os.fsync = lambda handle: os.kill(os.getpid(), 9)
    write_atomically(path, "never whole")


def test_a_second_process_waits_for_a_cell(folder):
    context = multiprocessing.get_context("fork")
    is_locked, is_inside = context.Event(), context.Event()

    def enter():
        is_locked.wait()
        with folder.cell_lock("a"):
            is_inside.set()

    second = context.Process(target=enter)
    second.start()  # before the lock is taken, which a fork would share
    with folder.cell_lock("a"):
        is_locked.set()
        assert not is_inside.wait(0.5)
    assert is_inside.wait(10)
    second.join()


def test_clean_keeps_the_checkpoints_of_a_cell_whose_record_cannot_be_read(folder):
    for cell in ("done", "broken-off"):
        for name in ("checkpoints/step-2.safetensors", LEFT, "log"):
            put(folder.cell(cell) / name, "content")
    for name in ("cell.json", "record.json"):
        change(place(folder, name, "done"), cell="done")
    assert {*folder.removable()} == {folder.cell("done") / name for name in ("checkpoints/step-2.safetensors", LEFT)}
    (folder.cell("done") / "record.json").write_text("{}")
    assert folder.removable() == []
