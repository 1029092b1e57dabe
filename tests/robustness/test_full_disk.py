"""A disk that fails at every write of a toy cell and of its runner: nothing torn, the same end on a repaired disk."""

from __future__ import annotations

import builtins
import errno
import io
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pytest

from tests.run_folders import begun, planned, quiet
from tests.toy_suite import FEW_SAMPLES, toy_suite
from tread_bench.cell.run import run_cell
from tread_bench.core.errors import UserError
from tread_bench.core.stored.files import temporaries
from tread_bench.core.stored.records import Record
from tread_bench.runner import heartbeat
from tread_bench.runner.folder import RunFolder
from tread_bench.runner.options import Call, Options
from tread_bench.runner.runner import run
from tread_bench.services.display import Lines

ERRORS = (errno.ENOSPC, errno.EIO, errno.EFBIG)
CALLS = ("open", "write", "fsync", "replace", "rename", "mkdir", "chmod", "unlink")  # of the system
TWO_ROWS = toy_suite(2, 1, seeds=1, hidden=8, batch=4, metrics=FEW_SAMPLES, pairs=0)
SUITE = TWO_ROWS.replace("  routed: {method: tread, routes: 1:2@0.5}\n", "")
OF_THE_CLOCK = {"train_seconds", "data_wait_seconds", "seconds"}


@contextmanager
def failing(root: Path, fails_at: int = 0) -> Iterator[list[str]]:
    """This process writes to a disk whose operation of that number (from 1) below a folder raises; all of them."""
    done: list[str] = []
    real_open = io.open

    def path_of(target) -> str:
        return os.readlink(f"/proc/self/fd/{target}") if isinstance(target, int) else os.path.abspath(target)

    def check(name: str, path: str) -> None:
        if path.startswith(str(root)):
            done.append(f"{name} {path}")
            if len(done) == fails_at:
                error = ERRORS[fails_at % len(ERRORS)]
                raise OSError(error, os.strerror(error), path)

    def guarded(name: str) -> Callable[..., object]:
        real = getattr(os, name)

        def call(target, *arguments, **options):
            if name != "open" or arguments[0] & (os.O_CREAT | os.O_WRONLY | os.O_RDWR):
                check(name, path_of(target))
            return real(target, *arguments, **options)

        return call

    class File(io.FileIO):
        """Half of what is written is there before the write fails."""

        def write(self, data):
            try:
                check("write", path_of(self.fileno()))
            except OSError:
                super().write(bytes(data)[: len(data) // 2])
                raise
            return super().write(data)

    def open_(file, mode="r", buffering=-1, *text, opener=None, **options):
        if not set(mode) & set("wax+") or not path_of(file).startswith(str(root)):
            return real_open(file, mode, buffering, *text, opener=opener, **options)
        raw = File(file, mode.replace("b", "").replace("t", ""), opener=opener or os.open)
        binary = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        return binary if "b" in mode else io.TextIOWrapper(binary, *text, **options)

    in_os = mock.patch.multiple(os, **{name: guarded(name) for name in CALLS})
    with in_os, mock.patch.object(io, "open", open_), mock.patch.object(builtins, "open", open_):
        yield done


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    return planned(tmp_path_factory.mktemp("suite"), SUITE)


@pytest.fixture
def untrained(plan, tmp_path):
    """A run folder whose one cell is planned."""
    return begun(tmp_path / "begun", plan, SUITE).root


def timeless(value):
    """Without what a clock says."""
    if isinstance(value, dict):
        return {key: timeless(item) for key, item in value.items() if key not in OF_THE_CLOCK}
    return [timeless(item) for item in value] if isinstance(value, list) else value


def ending(root: Path) -> tuple[dict, dict[str, bytes]]:
    """What the cell came to: its record, and its pictures bit by bit."""
    (path,) = root.glob("cells/*/record.json")
    record = timeless(json.loads(path.read_text()))
    assert record["status"] == "done", record["reason"]
    return record, {picture.name: picture.read_bytes() for picture in path.parent.rglob("*.png")}


def is_harmless(operation: str) -> bool:
    """To make a folder that is there already may fail unnoticed."""
    return operation.startswith("mkdir ")


def fail_at_each_write(folder: Path, place: Path, work: Callable[[Path], object], every: int) -> None:
    """Work on copies of a folder with a disk that fails at every write in turn, then on a repaired one."""
    # Undisturbed.
    whole = shutil.copytree(folder, place / "whole")
    with failing(whole) as writes:
        work(whole)
    expected = ending(whole)
    assert 10 < len(writes) <= 100, writes

    # With each failure.
    for number in range(1, len(writes) + 1, every):
        root = shutil.copytree(folder, place / f"run-{number}")
        was_told = False
        with failing(root, number) as done:
            try:
                work(root)
            except (OSError, UserError):
                was_told = True
        assert was_told or is_harmless(done[number - 1])
        for path in root.rglob("*.json"):
            content = json.loads(path.read_text())
            if path.name == "record.json":
                Record.model_validate(content)
        work(root)
        assert not temporaries(root)
        assert ending(root) == expected, done[number - 1]


@pytest.mark.full
def test_a_cell_survives_a_failure_of_the_disk_at_every_fourth_write(plan, untrained, tmp_path, monkeypatch):
    monkeypatch.setattr(heartbeat, "write_atomically", quiet)  # a note may fail unnoticed
    fail_at_each_write(untrained, tmp_path, lambda root: run_cell(root, plan.cells[0].id, 1, quiet), every=4)


@pytest.mark.full
def test_a_runner_survives_a_failure_of_the_disk_at_every_write(plan, untrained, tmp_path):
    run_cell(untrained, plan.cells[0].id, 1, quiet)
    RunFolder(untrained).plan_path.unlink()

    def work(root: Path) -> None:
        run(plan, Call(SUITE, RunFolder(root), Options(), Lines(quiet)))

    fail_at_each_write(untrained, tmp_path, work, every=1)
