"""Samples are written in ADM's format, as NumPy would write them, in bounded memory."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch

from tests.measure.sets.test_samples import all_of, images
from tread_bench.core.stored.files import OutputError
from tread_bench.measure.sets.samples import open_samples
from tread_bench.measure.sets.write import write_samples_npz


def pixels(channels=3):
    return torch.from_numpy(images(channels=channels)).permute(0, 3, 1, 2)


@pytest.mark.parametrize("channels", [1, 3])
def test_numpy_reads_what_was_written_and_so_do_we(tmp_path, channels):
    labels = np.arange(22, dtype=np.int32)[::2]  # neither int64 nor contiguous
    for size in (1, 4):
        path, done = tmp_path / f"{size}.npz", []
        write_samples_npz(
            path, pixels(channels).split(size), 11, (channels, 6, 5), labels, lambda *told, to=done: to.append(told)
        )
    assert done == [(0, 11), (4, 11), (8, 11), (11, 11)]
    assert len({path.read_bytes() for path in tmp_path.glob("*.npz")}) == 1
    with np.load(path) as found:
        assert list(found) == ["arr_0", "arr_1"]
        assert found["arr_0"].dtype == np.uint8 and np.array_equal(found["arr_0"], images(channels=channels))
        assert found["arr_1"].dtype == np.int64 and np.array_equal(found["arr_1"], labels)
    assert np.array_equal(all_of(open_samples(path)), images(channels=channels))


def test_a_file_is_replaced_with_overwrite_alone(tmp_path):
    path = tmp_path / "samples.npz"
    path.write_bytes(b"mine")
    with pytest.raises(OutputError, match=r"samples\.npz exists; give another path"):
        write_samples_npz(path, iter(()), 11, (3, 6, 5))
    assert path.read_bytes() == b"mine"
    write_samples_npz(path, pixels().split(4), 11, (3, 6, 5), overwrite=True)
    assert np.array_equal(all_of(open_samples(path)), images())


@pytest.mark.parametrize(
    ("count", "shape", "labels", "message"),
    [
        (12, (3, 6, 5), None, "11 images were given where 12 were expected"),
        (10, (3, 6, 5), None, "11 images"),
        (11, (3, 5, 6), None, r"4 images of shape \(3, 6, 5\)"),
        (11, (3, 6, 5), np.arange(10), r"labels of shape \(10,\) for 11 images"),
    ],
)
def test_other_images_than_announced_leave_no_file(tmp_path, count, shape, labels, message):
    with pytest.raises(ValueError, match=message):
        write_samples_npz(tmp_path / "samples.npz", pixels().split(4), count, shape, labels)
    assert list(tmp_path.iterdir()) == []


MEMORY = """
import sys
import torch
from pathlib import Path
from tread_bench.measure.sets.samples import open_samples
from tread_bench.measure.sets.write import write_samples_npz
from tread_bench.measure.speed.throughput import peak_resident_mib

path = Path(sys.argv[1])
batch = torch.randint(0, 256, (10, 3, 256, 256), dtype=torch.uint8)
before = peak_resident_mib()
if not path.exists():
    write_samples_npz(path, (batch for _ in range(80)), 800, (3, 256, 256))
assert sum(len(images) for images in open_samples(path).batches(10)) == 800
print(peak_resident_mib() - before)
"""


@pytest.mark.parametrize("way", ["stored", "deflated"])
def test_a_set_takes_the_memory_of_a_few_batches(tmp_path, way):
    """150 MiB in batches of 2 MiB: a batch is there as bytes, as an array and as a tensor."""
    if way == "deflated":
        np.savez_compressed(tmp_path / "set.npz", arr_0=np.broadcast_to(np.uint8(7), (800, 256, 256, 3)))
    command = [sys.executable, "-c", MEMORY, str(tmp_path / "set.npz")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 40
