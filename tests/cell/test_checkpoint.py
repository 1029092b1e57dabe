from __future__ import annotations

import errno
import threading

import pytest
import torch

from tests.toy_suite import OWNER
from tread_bench.cell import checkpoint as checkpoints
from tread_bench.cell.checkpoint import Checkpoint, CheckpointWriter, load_latest, save_checkpoint
from tread_bench.core.stored.files import StoreError


def some(step):
    return Checkpoint({"weights": torch.full((64,), float(step))}, {"step": step})


def save(folder, *steps):
    for step in steps:
        save_checkpoint(folder, step, some(step), OWNER)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_what_is_read_is_what_was_written(tmp_path):
    tensors = {"a": torch.randn(3, 5), "b": torch.tensor(7, dtype=torch.int64), "c": torch.randn(4).bfloat16()}
    save_checkpoint(tmp_path, 3, Checkpoint(tensors, {"loss": [0.1, 1e-300], "name": "π"}), OWNER)
    found = load_latest(tmp_path, OWNER)
    assert found.state == {"loss": [0.1, 1e-300], "name": "π"}
    assert all(torch.equal(found.tensors[name], tensor) for name, tensor in tensors.items())


def test_without_a_whole_checkpoint_there_is_none(tmp_path):
    assert load_latest(tmp_path / "nowhere", OWNER) is None
    save(tmp_path, 2, 4)
    for path in tmp_path.iterdir():
        path.write_bytes(path.read_bytes()[:-1])
    assert load_latest(tmp_path, OWNER) is None


def flip(path, where):
    content = bytearray(path.read_bytes())
    content[where * (len(content) - 1) // 4] ^= 0x80  # a byte that is no text either
    path.write_bytes(content)


DAMAGE = {
    "first byte": lambda path: flip(path, 0),
    "a byte between": lambda path: flip(path, 2),
    "last byte": lambda path: flip(path, 4),
    "appended": lambda path: path.write_bytes(path.read_bytes() + b"\n"),
    "empty": lambda path: path.write_bytes(b""),
    "missing": lambda path: path.unlink(),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
    "exchanged": lambda path: path.write_bytes(path.with_stem("step-000000002").read_bytes()),
}


@pytest.mark.parametrize("suffix", [".safetensors", ".sha256"])
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_checkpoint_is_passed_over_with_a_warning(tmp_path, caplog, damage, suffix):
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    save(folder, 2, 4)
    DAMAGE[damage]((folder / "step-000000004").with_suffix(suffix))
    moved = folder.rename(tmp_path / "moved")
    assert load_latest(moved, OWNER).state == {"step": 2}
    assert caplog.text.count("step-000000004.safetensors is damaged") == 1


def test_the_last_two_are_kept(tmp_path):
    save(tmp_path, 2, 4, 6)
    assert names(tmp_path) == [f"step-00000000{k}.{kind}" for k in (4, 6) for kind in ("safetensors", "sha256")]


def test_later_ones_that_were_passed_over_make_no_good_one_go(tmp_path):
    save(tmp_path, 4, 8)
    flip(tmp_path / "step-000000008.safetensors", 2)
    save(tmp_path, 6)  # by a training that went on from 4
    assert load_latest(tmp_path, OWNER).state == {"step": 6}
    assert names(tmp_path) == [f"step-00000000{k}.{kind}" for k in (4, 6) for kind in ("safetensors", "sha256")]


def test_training_goes_on_while_a_checkpoint_is_written_and_the_next_one_waits_for_it(tmp_path, monkeypatch):
    is_released = threading.Event()

    def write_slowly(*arguments):
        assert is_released.wait(30)
        save_checkpoint(*arguments)

    monkeypatch.setattr(checkpoints, "save_checkpoint", write_slowly)
    with CheckpointWriter(tmp_path, OWNER) as writer:
        writer.save(2, some(2))
        assert not list(tmp_path.iterdir())  # nothing is written yet
        threading.Timer(0.05, is_released.set).start()
        writer.save(4, some(4))
        assert "step-000000002.sha256" in names(tmp_path)
    assert load_latest(tmp_path, OWNER).state == {"step": 4}
    assert len(names(tmp_path)) == 4


def test_a_disk_that_cannot_be_written_to_ends_the_training(tmp_path, monkeypatch):
    def refuse(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(checkpoints, "save_checkpoint", refuse)
    with pytest.raises(OSError, match="No space left"), CheckpointWriter(tmp_path, OWNER) as writer:
        writer.save(2, some(2))
    writer = CheckpointWriter(tmp_path, OWNER)
    writer.save(2, some(2))
    with pytest.raises(OSError, match="No space left"):
        writer.save(4, some(4))


def test_what_ends_the_training_is_raised_once_the_checkpoint_is_written(tmp_path):
    def interrupted():
        with CheckpointWriter(tmp_path, OWNER) as writer:
            writer.save(2, some(2))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert load_latest(tmp_path, OWNER).state == {"step": 2}


def test_one_of_another_cell_is_refused(tmp_path):
    save(tmp_path, 2)
    with pytest.raises(StoreError, match=f"step-000000002.safetensors belongs to cell {OWNER}, not to other: .* back"):
        load_latest(tmp_path, "other")
