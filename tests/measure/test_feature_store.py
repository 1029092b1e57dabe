"""Features on disk: the same as computed, computed again where a file is damaged, in bounded memory."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tread_bench.core.errors import UserError
from tread_bench.measure.quality.feature_store import features_of
from tread_bench.measure.quality.features import Extractor, Features, images_to_features
from tread_bench.measure.quality.statistics import ROWS, FeatureStatistics, Statistics, features_to_statistics
from tread_bench.measure.sets.samples import SampleSet, open_samples

COUNT, BATCH = 2450, 250


def drawn(count: int, most: int) -> NDArray[np.int64]:
    return np.sort(np.random.default_rng(0).permutation(count)[:most])


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


class Images:
    """Random images, and how many of them were read."""

    def __init__(self, count: int = COUNT, sha256: str = "a" * 64) -> None:
        self.pixels = torch.randint(0, 256, (count, 1, 4, 4), dtype=torch.uint8, generator=_generator(0))
        self.set = SampleSet("random", count, (1, 4, 4), lambda: sha256, self.batches)
        self.read = 0

    def batches(self, size: int) -> Iterator[Tensor]:
        for pixels in self.pixels.split(size):
            self.read += len(pixels)
            yield pixels


class Network(nn.Module):
    """Random projections, with logits and spatial features."""

    def __init__(self) -> None:
        super().__init__()
        self.projection = nn.Parameter(torch.randn(48, 24, generator=_generator(1)))

    def forward(self, pixels: Tensor, spatial: bool = False) -> tuple[Tensor, ...]:
        pooled = pixels.flatten(1).float() @ self.projection
        outputs = pooled, pooled[:, :5] / 2
        return (*outputs, pooled.repeat(1, 2)) if spatial else outputs


def extractor(sha256: str = "b" * 64, spatial_dims: int | None = 48) -> Extractor:
    return Extractor("random", Network(), sha256, 24, spatial_dims)


def stored(images: Images, network: Extractor | None = None, batch: int = BATCH, most: int = COUNT) -> Statistics:
    kept = drawn(images.set.count, most)
    return features_of(images.set, network or extractor(), kept, batch, ROWS, has_logits=len(kept) == images.set.count)


def computed(spatial: bool = True) -> Features:
    return images_to_features(Images().batches(BATCH), extractor(), spatial=spatial)


def same_sums(found: FeatureStatistics | None, features: Tensor | None) -> bool:
    assert found is not None and features is not None
    expected = features_to_statistics(features)
    same = torch.equal(found.mean, expected.mean) and torch.equal(found.covariance, expected.covariance)
    return same and found.count == expected.count


def same(found: Statistics, expected: Features) -> bool:
    pairs = [(found.pooled.features, expected.pooled), (found.pooled.logits, expected.logits)]
    is_same = all(torch.equal(one, other) for one, other in pairs if other is not None)
    return is_same and same_sums(found.pooled, expected.pooled) and same_sums(found.spatial, expected.spatial)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "tread-bench" / "features"


def test_they_are_those_that_are_computed_and_nothing_is_computed_twice(folder: Path) -> None:
    expected = computed()
    first, again = Images(), Images()
    assert same(stored(first), expected) and same(stored(again), expected)
    assert (first.read, again.read) == (COUNT, 0)
    (file,) = folder.iterdir()
    with np.load(file) as arrays:
        assert np.array_equal(arrays["features"], expected.pooled) and np.array_equal(arrays["logits"], expected.logits)


@pytest.mark.parametrize(
    "other",
    [
        {"network": extractor("c" * 64)},
        {"batch": 125},
        {"images": Images(sha256="d" * 64)},
        {"images": Images(COUNT - 1)},
        {"most": 100},
    ],
    ids=["network", "batch", "other images", "fewer images", "fewer features"],
)
def test_another_network_batch_or_set_has_its_own(other: dict[str, Any], folder: Path) -> None:
    stored(Images())
    stored(**{"images": Images(), **other})
    assert len(list(folder.iterdir())) == 2


def test_sums_under_other_kernels_are_summed_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored(Images())
    monkeypatch.setattr("tread_bench.measure.quality.feature_store.blas_kernels", lambda: "Other")
    stored(again := Images())
    assert again.read == COUNT


def test_of_many_images_some_are_kept_one_by_one_and_all_are_summed(folder: Path) -> None:
    expected = computed()
    for _ in range(2):
        found = stored(Images(), most=300)
        assert torch.equal(found.pooled.features, expected.pooled[drawn(COUNT, 300)])
        assert same_sums(found.pooled, expected.pooled) and not found.pooled.has_logits


DAMAGE: dict[str, Callable[[Path], object]] = {
    "features": lambda file: file.write_bytes(file.read_bytes().replace(b"\0", b"\1", 9)),
    "cut short": lambda file: file.write_bytes(file.read_bytes()[:-50]),
    "a pickle": lambda file: np.savez(file, features=np.array([{"a": 1}])),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_whatever_is_damaged_is_computed_again(damage: str, folder: Path) -> None:
    stored(Images())
    (file,) = folder.iterdir()
    DAMAGE[damage](file)
    again, then = Images(), Images()
    assert same(stored(again), computed()) and again.read == COUNT
    assert same(stored(then), computed()) and then.read == 0


def test_what_cannot_be_stored_is_computed_and_leaves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(file: Any, **_: object) -> None:
        file.write(b"half")
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(np, "savez", full)
        assert same(stored(Images()), computed())
    assert not [*folder.iterdir()]
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    assert same(stored(Images()), computed())


def test_too_few_images_are_an_error_and_not_zeros(folder: Path) -> None:
    images = Images()
    images.pixels = images.pixels[:-1]
    with pytest.raises(ValueError, match="0 images, where there must be at least one"):
        stored(images)
    assert not folder.exists()


def test_of_a_set_that_changes_while_it_is_read_nothing_is_kept(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "set.npz"
    np.savez(path, arr_0=np.zeros((COUNT, 8, 8, 3), np.uint8))
    opened = open_samples(path)
    extractor = Extractor("mean", Sums(path), "c" * 64, 3, None)
    with pytest.raises(UserError, match="set has changed while it was read"):
        features_of(opened, extractor, drawn(COUNT, COUNT), BATCH, ROWS)
    assert not [*folder.glob("*.npz")]


class Sums(nn.Module):
    """Sums of channels; somebody writes to the set meanwhile."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    def forward(self, pixels: Tensor) -> tuple[Tensor, ...]:
        os.utime(self.path)
        return pixels.float().sum((2, 3)), None


def test_features_that_are_not_finite_are_not_stored(folder: Path) -> None:
    network = extractor()
    network.network.projection.data.fill_(float("inf"))
    with pytest.raises(FloatingPointError, match="NaN or infinite"):
        stored(Images(), network)
    assert not folder.exists()


MEMORY = """
import sys
import torch
from test_feature_store import *
from tread_bench.cell.numerics import keep_freed_memory
from tread_bench.measure.speed.memory import peak_resident_mib

class Wide(nn.Module):
    def __init__(self):
        super().__init__()
        self.projection = nn.Parameter(torch.ones(3, 1024))

    def forward(self, pixels):
        return pixels.flatten(1).float() @ self.projection, None

def batches(size):
    for first in range(0, 50_000, size):
        yield torch.zeros(min(size, 50_000 - first), 1, 1, 1, dtype=torch.uint8)

keep_freed_memory()
network = Extractor("wide", Wide(), "w", 1024)
network.features(torch.zeros(BATCH, 1, 1, 1, dtype=torch.uint8))
before = peak_resident_mib()
many = SampleSet("many", 50_000, (1, 1, 1), lambda: "many", batches)
features_of(many, network, drawn(50_000, int(sys.argv[1])), BATCH, ROWS)
print(peak_resident_mib() - before)
"""


@pytest.mark.parametrize(("kept", "mib"), [(1000, 120), (50_000, 120 + 196)])
def test_memory_is_that_of_what_is_kept(kept: int, mib: int, tmp_path: Path) -> None:
    """Features of all 50,000 images take 195 MiB and are never there twice; 120 MiB are for the work itself."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent), "XDG_CACHE_HOME": str(tmp_path)}
    command = [sys.executable, "-c", MEMORY, str(kept)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < mib
