"""Samples are written in ADM's format, as NumPy would write them, in bounded memory."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.measure.sets.test_samples import all_of, images
from tread_bench.core.errors import UserError
from tread_bench.core.outputs import OutputError, is_own
from tread_bench.measure.sets import write
from tread_bench.measure.sets.samples import open_samples
from tread_bench.measure.sets.write import write_samples_npz


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def pixels(channels: int = 3) -> torch.Tensor:
    return torch.from_numpy(images(channels=channels)).permute(0, 3, 1, 2)


@pytest.mark.parametrize("channels", [1, 3])
def test_numpy_reads_what_was_written_and_so_do_we(tmp_path, channels):
    path, done = tmp_path / "samples.npz", []
    labels = np.arange(11) % 3
    write_samples_npz(
        path, pixels(channels).split(4), 11, (channels, 6, 5), labels, lambda *progress: done.append(progress)
    )
    with np.load(path) as found:
        assert list(found) == ["arr_0", "arr_1"]
        assert found["arr_0"].dtype == np.uint8 and np.array_equal(found["arr_0"], images(channels=channels))
        assert found["arr_1"].dtype == np.int64 and np.array_equal(found["arr_1"], labels)
    ours = open_samples(path)
    assert np.array_equal(all_of(ours), images(channels=channels)) and np.array_equal(ours.labels, labels)
    assert done == [(0, 11), (4, 11), (8, 11), (11, 11)]


def test_equal_samples_are_equal_files_whatever_the_batch(tmp_path):
    for size in (1, 4, 11):
        write_samples_npz(tmp_path / f"{size}.npz", pixels().split(size), 11, (3, 6, 5))
    assert len({path.read_bytes() for path in tmp_path.glob("*.npz")}) == 1


def test_only_files_of_this_program_are_replaced(tmp_path):
    path = tmp_path / "samples.npz"
    write_samples_npz(path, pixels().split(4), 11, (3, 6, 5))
    assert is_own(path)
    np.savez(path, **np.load(path))  # the same arrays, by somebody else
    assert not is_own(path)
    (tmp_path / "link.npz").symlink_to(path)
    with pytest.raises(OutputError, match="it is a link"):
        write_samples_npz(tmp_path / "link.npz", pixels().split(4), 11, (3, 6, 5))


@pytest.mark.parametrize(
    ("count", "shape", "message"),
    [
        (12, (3, 6, 5), "11 images were given where 12 were expected"),
        (10, (3, 6, 5), "11 images"),
        (11, (3, 5, 6), "4 images"),
    ],
)
def test_other_images_than_announced_leave_no_file(tmp_path, count, shape, message):
    with pytest.raises(ValueError, match=message):
        write_samples_npz(tmp_path / "samples.npz", pixels().split(4), count, shape)
    assert list(tmp_path.iterdir()) == []


def test_space_is_looked_at_before_the_first_image(tmp_path, monkeypatch):
    def never():
        raise AssertionError("no image is needed")
        yield

    monkeypatch.setattr(write.shutil, "disk_usage", lambda folder: type("Usage", (), {"free": 10**6}))
    with pytest.raises(UserError, match=re.escape("samples.npz needs 9.16 GiB and 0.00 GiB are free")):
        write_samples_npz(tmp_path / "samples.npz", never(), 50_000, (3, 256, 256))


# A process starts with the peak of the one that started it in its resource usage, but not in its own memory's.
PEAK = """
import re, sys
import torch
from pathlib import Path
from tread_bench.measure.sets.samples import open_samples
from tread_bench.measure.sets.write import write_samples_npz

def peak_mib(): return int(re.search("VmHWM: *([0-9]+) kB", Path("/proc/self/status").read_text()).group(1)) / 2**10
"""
WRITE_AND_READ = """
folder, count, shape = Path(sys.argv[1]), 3_000, (3, 256, 256)  # 563 MiB
batch = torch.randint(0, 256, (50, *shape), dtype=torch.uint8)
before = peak_mib()
write_samples_npz(folder / "set.npz", (batch for _ in range(count // 50)), count, shape)
found = open_samples(folder / "set.npz")
total = sum(int(images[:, :, 0, 0].sum()) for images in found.batches(50, start=100))
assert total == int(batch[:, :, 0, 0].sum()) * (count // 50 - 2)
print(peak_mib() - before)
"""
READ = """
before = peak_mib()
assert sum(len(images) for images in open_samples(sys.argv[1]).batches(50)) == 1000
print(peak_mib() - before)
"""


def grown_mib(program: str, path: Path) -> float:
    done = subprocess.run(
        [sys.executable, "-c", PEAK + program, str(path)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return float(done.stdout)


def test_a_set_is_never_in_memory_as_a_whole(tmp_path):
    assert grown_mib(WRITE_AND_READ, tmp_path) < 150  # a batch has 9 MiB, the set 563


def test_nor_is_a_compressed_one(tmp_path):
    one = images(1, (256, 256))  # pixels that do not compress
    np.savez_compressed(tmp_path / "set.npz", arr_0=np.broadcast_to(one, (1000, 256, 256, 3)))  # 188 MiB
    assert grown_mib(READ, tmp_path / "set.npz") < 100
