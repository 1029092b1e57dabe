"""Features on disk: the same as computed, computed again where a file is damaged, in bounded memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from tread_bench.core.errors import UserError
from tread_bench.measure.quality.feature_store import features_of
from tread_bench.measure.quality.features import Extractor, Features, images_to_features
from tread_bench.measure.quality.statistics import ROWS, features_to_statistics
from tread_bench.measure.sets.samples import SampleSet, open_samples

COUNT, BATCH = 2450, 250


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def drawn(count, most):
    return np.sort(np.random.default_rng(0).permutation(count)[:most])


class Images:
    """Random images, and how many of them were read."""

    def __init__(self, count=COUNT, sha256="a" * 64):
        self.pixels = torch.randint(0, 256, (count, 1, 4, 4), dtype=torch.uint8, generator=seeded(0))
        self.set = SampleSet("random", count, (1, 4, 4), lambda: sha256, self.batches)
        self.read = 0

    def batches(self, size):
        for pixels in self.pixels.split(size):
            self.read += len(pixels)
            yield pixels


class Network(nn.Module):
    """Random projections, with logits and spatial features."""

    def __init__(self, inputs=48, width=24):
        super().__init__()
        self.projection = nn.Parameter(torch.randn(inputs, width, generator=seeded(1)))

    def forward(self, pixels, spatial=False):
        pooled = pixels.flatten(1).float() @ self.projection
        outputs = pooled, pooled[:, :5] / 2
        return (*outputs, pooled.repeat(1, 2)) if spatial else outputs


def extractor(sha256="b" * 64):
    return Extractor("random", Network(), sha256, 24, 48)


def stored(images, network=None, batch=BATCH, most=COUNT):
    kept = drawn(images.set.count, most)
    return features_of(images.set, network or extractor(), kept, batch, ROWS, has_logits=len(kept) == images.set.count)


def computed():
    return images_to_features(Images().batches(BATCH), extractor(), spatial=True)


def is_same(found, expected):
    """Whether sums, features and logits are those of the same images."""
    pairs = [(found.features, expected.pooled), (found.logits, expected.logits)]
    for sums, features in ((found.pooled, expected.pooled), (found.spatial, expected.spatial)):
        of_all = features_to_statistics(features)
        pairs += [(sums.mean, of_all.mean), (sums.covariance, of_all.covariance)]
    return all(torch.equal(one, other) for one, other in pairs)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "tread-bench" / "features"


def test_they_are_those_that_are_computed_and_nothing_is_computed_twice(folder):
    expected = computed()
    first, again = Images(), Images()
    assert is_same(stored(first), expected) and is_same(stored(again), expected)
    assert (first.read, again.read) == (COUNT, 0)
    (file,) = folder.iterdir()
    with np.load(file) as arrays:
        assert np.array_equal(arrays["features"], expected.pooled) and np.array_equal(arrays["logits"], expected.logits)


def test_another_network_batch_set_machine_or_kernel_has_its_own(folder, monkeypatch):
    stored(Images())
    stored(Images(), extractor("c" * 64))
    stored(Images(), batch=125)
    stored(Images(sha256="d" * 64))
    stored(Images(COUNT - 1))
    stored(Images(), most=100)
    monkeypatch.setattr("tread_bench.measure.quality.feature_store.machine_of", lambda device: "NVIDIA H200")
    stored(Images())
    monkeypatch.setattr("tread_bench.measure.quality.feature_store.blas_kernels", lambda: "Other")
    stored(again := Images())
    assert len(list(folder.iterdir())) == 8 and again.read == COUNT


def test_of_many_images_some_are_kept_one_by_one_and_all_are_summed(folder):
    expected = computed()
    for _ in range(2):
        found = stored(Images(), most=300)
        assert torch.equal(found.features, expected.pooled[drawn(COUNT, 300)])
        assert torch.equal(found.pooled.covariance, features_to_statistics(expected.pooled).covariance)
        assert found.pooled.count == COUNT and found.logits is None


def test_what_is_cut_short_is_computed_again(folder):
    stored(Images())
    (file,) = folder.iterdir()
    file.write_bytes(file.read_bytes()[:-50])
    again, then = Images(), Images()
    assert is_same(stored(again), computed()) and again.read == COUNT
    assert is_same(stored(then), computed()) and then.read == 0


def test_what_cannot_be_stored_is_computed_and_leaves_nothing(folder, monkeypatch):
    def full(file, **_):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    assert is_same(stored(Images()), computed())
    assert not [*folder.iterdir()]


def test_of_a_set_that_changes_while_it_is_read_or_has_no_finite_features_nothing_is_kept(folder, tmp_path):
    path = tmp_path / "set.npz"
    np.savez(path, arr_0=np.zeros((COUNT, 1, 1, 3), np.uint8))
    opened, network = open_samples(path), extractor()

    def features(pixels, spatial):
        np.savez(path, arr_0=np.ones((COUNT, 1, 1, 3), np.uint8))
        return Features(pixels.flatten(1).float())

    network.features = features
    with pytest.raises(UserError, match="set has changed while it was read"):
        features_of(opened, network, drawn(COUNT, COUNT), BATCH, ROWS)
    network = extractor()
    network.network.projection.data.fill_(float("inf"))
    with pytest.raises(FloatingPointError, match="NaN or infinite"):
        stored(Images(), network)
    assert not [*folder.glob("*.npz")]


MEMORY = """
import sys
import torch
from test_feature_store import *
from tread_bench.cell.numerics import keep_freed_memory
from tread_bench.measure.speed.throughput import peak_resident_mib

def batches(size):
    for first in range(0, 50_000, size):
        yield torch.zeros(min(size, 50_000 - first), 1, 1, 1, dtype=torch.uint8)

keep_freed_memory()
network = Extractor("wide", Network(3, 1024), "w", 1024)
network.features(torch.zeros(BATCH, 1, 1, 1, dtype=torch.uint8))
before = peak_resident_mib()
many = SampleSet("many", 50_000, (1, 1, 1), lambda: "many", batches)
features_of(many, network, drawn(50_000, int(sys.argv[1])), BATCH, ROWS)
print(peak_resident_mib() - before)
"""


@pytest.mark.parametrize(("kept", "mib"), [(1000, 120), (50_000, 120 + 196)])
def test_memory_is_that_of_what_is_kept(kept, mib, tmp_path):
    """Features of all 50,000 images take 195 MiB and are never there twice; 120 MiB are for the work itself."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent), "XDG_CACHE_HOME": str(tmp_path)}
    command = [sys.executable, "-c", MEMORY, str(kept)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < mib
