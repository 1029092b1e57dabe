"""A checkpoint with one flipped byte, cut short, emptied or exchanged is noticed, and the one before is used."""

from __future__ import annotations

import logging
import shutil

import pytest
import torch

from tests.toy_suite import OWNER
from tread_bench.cell.checkpoint import Checkpoint, load_latest, save_checkpoint

DAMAGED, BEFORE = 2, 1  # steps


def checkpoint(step):
    chance = torch.Generator().manual_seed(step)
    tensors = {"a": torch.rand(3, 5, generator=chance), "b": torch.rand(7, generator=chance).double()}
    return Checkpoint(tensors, {"step": step, "train_loss": [[1, 0.5]]})


@pytest.fixture
def written(tmp_path):
    """A folder with two checkpoints, and the files of the second."""
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    save_checkpoint(folder, BEFORE, checkpoint(BEFORE), OWNER)
    first = set(folder.iterdir())
    save_checkpoint(folder, DAMAGED, checkpoint(DAMAGED), OWNER)
    return folder, sorted(set(folder.iterdir()) - first)


def assert_is(found, step):
    expected = checkpoint(step)
    assert found is not None and found.state == expected.state and found.tensors.keys() == expected.tensors.keys()
    assert all(torch.equal(found.tensors[name], tensor) for name, tensor in expected.tensors.items())


@pytest.fixture
def assert_noticed(written, caplog):
    """The one before is used, and a warning names the damaged one."""

    def assert_noticed():
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            assert_is(load_latest(written[0], OWNER), BEFORE)
        assert [f"{DAMAGED:09d}" in r.getMessage() and "damaged" in r.getMessage() for r in caplog.records] == [True]

    return assert_noticed


def test_the_last_one_is_loaded_while_it_is_whole(written, caplog):
    assert_is(load_latest(written[0], OWNER), DAMAGED)
    assert not [r for r in caplog.records if r.levelno >= logging.WARNING]


def test_a_flipped_bit_and_what_is_cut_appended_or_exchanged_is_noticed(written, assert_noticed):
    for path in written[1]:
        whole = path.read_bytes()
        older = path.with_name(path.name.replace(f"{DAMAGED:09d}", f"{BEFORE:09d}"))
        places = range(0, len(whole), 7)
        flipped = [whole[:i] + bytes([whole[i] ^ 1 << i % 8]) + whole[i + 1 :] for i in places]
        cut = [whole[:length] for length in (0, len(whole) // 2, len(whole) - 1)]
        for content in (*flipped, *cut, whole + b"\n", bytes(len(whole)), older.read_bytes(), b"{}"):
            path.write_bytes(content)
            assert_noticed()
        path.write_bytes(whole)


def test_a_file_that_is_missing_means_the_one_before(written):
    folder, files = written
    for path in files:
        whole = path.read_bytes()
        path.unlink()
        assert_is(load_latest(folder, OWNER), BEFORE)
        path.write_bytes(whole)


def test_a_folder_in_place_of_a_file_means_the_one_before(written):
    folder, files = written
    for path in files:
        whole = path.read_bytes()
        path.unlink()
        path.mkdir()
        assert_is(load_latest(folder, OWNER), BEFORE)
        path.rmdir()
        path.write_bytes(whole)


def test_without_a_whole_one_training_begins_anew(written, caplog):
    folder, _ = written
    for path in folder.iterdir():
        path.write_bytes(path.read_bytes()[:-1])
    assert load_latest(folder, OWNER) is None
    assert len([r for r in caplog.records if r.levelno == logging.WARNING]) == 2


def test_a_checkpoint_moves_with_its_folder(written, tmp_path):
    moved = shutil.copytree(written[0], tmp_path / "elsewhere")
    assert_is(load_latest(moved, OWNER), DAMAGED)
