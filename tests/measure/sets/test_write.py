"""Samples are written in ADM's format, as NumPy would write them, in bounded memory."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pytest
import torch

from tests.measure.sets.test_samples import all_of, images
from tread_bench.core.stored.outputs import OutputError
from tread_bench.measure.sets.samples import open_samples
from tread_bench.measure.sets.write import write_samples_npz


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
    assert np.array_equal(all_of(open_samples(path)), images(channels=channels))
    assert done == [(0, 11), (4, 11), (8, 11), (11, 11)]


def test_equal_samples_are_equal_files_whatever_the_batch(tmp_path):
    for size in (1, 4, 11):
        write_samples_npz(tmp_path / f"{size}.npz", pixels().split(size), 11, (3, 6, 5))
    assert len({path.read_bytes() for path in tmp_path.glob("*.npz")}) == 1


def test_files_are_replaced_with_overwrite_alone_and_links_never(tmp_path):
    path = tmp_path / "samples.npz"
    path.write_bytes(b"mine")
    with pytest.raises(OutputError, match=r"samples\.npz exists; give another path"):
        write_samples_npz(path, iter(()), 11, (3, 6, 5))
    assert path.read_bytes() == b"mine"
    write_samples_npz(path, pixels().split(4), 11, (3, 6, 5), overwrite=True)
    assert np.array_equal(all_of(open_samples(path)), images())
    (tmp_path / "link.npz").symlink_to(path)
    with pytest.raises(OutputError, match="it is a link"):
        write_samples_npz(tmp_path / "link.npz", pixels().split(4), 11, (3, 6, 5), overwrite=True)


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


MEMORY = """
import sys
import torch
from pathlib import Path
from tread_bench.measure.sets.samples import open_samples
from tread_bench.measure.sets.write import write_samples_npz
from tread_bench.measure.speed.memory import peak_resident_mib

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


def test_labels_of_any_integers_are_written_as_int64_and_are_one_for_each_image(tmp_path):
    path = tmp_path / "samples.npz"
    labels = np.arange(22, dtype=np.int32)[::2]  # neither int64 nor contiguous
    write_samples_npz(path, pixels().split(4), 11, (3, 6, 5), labels)
    with np.load(path) as found:
        assert found["arr_1"].dtype == np.int64 and np.array_equal(found["arr_1"], labels)
    with pytest.raises(ValueError, match=re.escape("labels of shape (10,) for 11 images")):
        write_samples_npz(tmp_path / "fewer.npz", pixels().split(4), 11, (3, 6, 5), labels[:10])
    assert not (tmp_path / "fewer.npz").exists()
