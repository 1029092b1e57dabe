"""Features on disk: the same as computed, resumed after a kill, computed again where damaged, never twice in memory."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tread_bench.core.errors import UserError
from tread_bench.measure.quality.feature_store import FeatureStore
from tread_bench.measure.quality.features import Extractor, Features, images_to_features
from tread_bench.measure.quality.statistics import features_to_statistics
from tread_bench.measure.quality.statistics_file import Statistics

COUNT, BATCH, SHARD = 2450, 250, 1000  # two shards and a half


class Images:
    """Random images, and which of them were read."""

    sha256 = "a" * 64

    def __init__(self, count: int = COUNT) -> None:
        self.count = count
        self.pixels = torch.randint(0, 256, (count, 1, 4, 4), dtype=torch.uint8, generator=_generator(0))
        self.read: list[int] = []

    def batches(self, size: int, start: int = 0) -> Iterator[Tensor]:
        for first in range(start, self.count, size):
            self.read += range(first, min(first + size, self.count))
            yield self.pixels[first : first + size]


class Network(nn.Module):
    """Random projections, with logits and spatial features."""

    def __init__(self) -> None:
        super().__init__()
        self.projection = nn.Parameter(torch.randn(48, 24, generator=_generator(1)))

    def forward(self, pixels: Tensor, spatial: bool = False) -> tuple[Tensor, ...]:
        pooled = pixels.flatten(1).float() @ self.projection
        outputs = pooled, pooled[:, :5] / 2
        return (*outputs, pooled.repeat(1, 2)) if spatial else outputs


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def extractor(sha256: str = "b" * 64) -> Extractor:
    return Extractor("random", Network(), sha256, 24, 48)


def stored(folder: Path, images: Images | None = None, network: Extractor | None = None, **options: Any) -> Features:
    store = FeatureStore(folder)
    return store.features(images or Images(), network or extractor(), **{"batch": BATCH, **options})


def computed(spatial: bool = False) -> Features:
    return images_to_features(Images().batches(BATCH), extractor(), spatial=spatial)


def entry(folder: Path) -> Path:
    (place,) = folder.iterdir()
    return place


def same(found: Features, expected: Features) -> bool:
    pairs = list(zip(found, expected, strict=True))
    return all((one is None) == (other is None) for one, other in pairs) and all(
        torch.equal(one, other) for one, other in pairs if one is not None and other is not None
    )


@pytest.mark.parametrize("spatial", [False, True])
def test_they_are_those_that_are_computed_and_nothing_is_computed_twice(spatial: bool, tmp_path: Path) -> None:
    expected = computed(spatial)
    first, again = Images(), Images()
    assert same(stored(tmp_path, first, spatial=spatial), expected)
    assert same(stored(tmp_path, again, spatial=spatial), expected)
    assert (first.read, again.read) == (list(range(COUNT)), [])


def test_they_are_mapped_from_files_that_numpy_reads(tmp_path: Path) -> None:
    found = stored(tmp_path, spatial=True)
    for name, output in found._asdict().items():
        assert np.array_equal(np.load(entry(tmp_path) / f"{name}.npy"), output.numpy())
    found.pooled.zero_()  # of this process alone
    assert stored(tmp_path).pooled.any()


def test_spatial_features_are_added_when_they_are_requested(tmp_path: Path) -> None:
    without = stored(tmp_path)
    images = Images()
    assert stored(tmp_path, images, spatial=True).spatial is not None
    assert len(images.read) == COUNT
    again = Images()
    assert same(stored(tmp_path, again), without)
    assert again.read == []


@pytest.mark.parametrize(
    "other",
    [
        {"network": extractor("c" * 64)},
        {"batch": 125},
        {"images": type("Others", (Images,), {"sha256": "d" * 64})()},
        {"images": Images(COUNT - 1)},
    ],
    ids=["network", "batch", "other images", "fewer images"],
)
def test_another_network_batch_or_set_has_its_own(other: dict[str, Any], tmp_path: Path) -> None:
    stored(tmp_path)
    stored(tmp_path, **other)
    assert len(list(tmp_path.iterdir())) == 2


def test_progress_counts_what_was_there(tmp_path: Path) -> None:
    seen: list[int] = []
    stored(tmp_path, progress=seen.append)
    assert seen == [0, *range(BATCH, COUNT, BATCH), COUNT]
    seen.clear()
    stored(tmp_path, progress=seen.append)
    assert seen == [COUNT]


def statistics_of(folder: Path, images: Images | None = None, **options: Any) -> Statistics:
    return FeatureStore(folder).statistics(images or Images(), extractor(), **{"batch": BATCH, **options})


def same_sums(found: Statistics, expected: Features) -> bool:
    assert expected.spatial is not None
    pairs = zip(found, (expected.pooled, expected.spatial), strict=True)
    sums = [(one, features_to_statistics(of)) for one, of in pairs if one is not None]
    return all(torch.equal(a.mean, b.mean) and torch.equal(a.covariance, b.covariance) for a, b in sums)


def test_sums_are_those_of_the_features_and_found_without_them(tmp_path: Path) -> None:
    expected = computed(spatial=True)
    first = statistics_of(tmp_path, spatial=True)
    for name in Features._fields:
        (entry(tmp_path) / f"{name}.npy").unlink()
    again, seen = Images(), list[int]()
    found = statistics_of(tmp_path, again, spatial=True, progress=seen.append)
    assert same_sums(first, expected)
    assert same_sums(found, expected)
    assert found.spatial is not None
    assert (found.pooled.num_kept, again.read, seen) == (0, [], [COUNT])


def test_sums_of_spatial_features_are_added_when_they_are_requested(tmp_path: Path) -> None:
    assert statistics_of(tmp_path).spatial is None
    found = statistics_of(tmp_path, spatial=True)
    assert found.spatial is not None and same_sums(found, computed(spatial=True))


def test_damaged_sums_are_summed_again(tmp_path: Path) -> None:
    expected = computed(spatial=True)
    statistics_of(tmp_path)
    path = entry(tmp_path) / "statistics.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    again = Images()
    assert same_sums(statistics_of(tmp_path, again), expected)
    assert again.read == []
    (entry(tmp_path) / "pooled.npy").unlink()
    assert same_sums(statistics_of(tmp_path, again), expected) and again.read == []  # they were written anew


def test_sums_under_other_kernels_are_summed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    statistics_of(tmp_path)
    before = (entry(tmp_path) / "statistics.safetensors").read_bytes()
    monkeypatch.setattr("tread_bench.measure.quality.feature_store.blas_kernels", lambda: "Other")
    again = Images()
    statistics_of(tmp_path, again)
    assert again.read == [] and (entry(tmp_path) / "statistics.safetensors").read_bytes() != before


def test_sums_with_spatial_ones_are_not_replaced_by_less(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two processes that sum at once, one may request less than the other has stored meanwhile."""
    features = FeatureStore.features

    def overtaken(store: FeatureStore, *arguments: Any, **options: Any) -> Features:
        monkeypatch.undo()
        statistics_of(tmp_path, spatial=True)
        return features(store, *arguments, **options)

    monkeypatch.setattr(FeatureStore, "features", overtaken)
    assert statistics_of(tmp_path).spatial is None
    (entry(tmp_path) / "pooled.npy").unlink()
    again = Images()
    assert statistics_of(tmp_path, again, spatial=True).spatial is not None and again.read == []


def python(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run code that imports this file, in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


KILLED = """
import os, signal, sys
from pathlib import Path
from test_feature_store import *

class Dies(Images):
    def batches(self, size, start=0):
        for pixels in super().batches(size, start):
            if len(self.read) > 2 * SHARD:
                os.kill(os.getpid(), signal.SIGKILL)
            yield pixels

stored(Path(sys.argv[1]), Dies())
"""


def test_after_a_kill_it_resumes_at_the_last_whole_shard(tmp_path: Path) -> None:
    done = python(KILLED, tmp_path)
    assert done.returncode == -signal.SIGKILL
    images = Images()
    found = stored(tmp_path, images)
    assert images.read == list(range(2 * SHARD, COUNT))
    assert same(found, computed())


def _flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1  # in the second shard
    path.write_bytes(content)


@pytest.mark.parametrize("name", ["pooled", "logits", "spatial"])
def test_a_damaged_shard_is_computed_again_alone(name: str, tmp_path: Path) -> None:
    expected = stored(tmp_path, spatial=True).pooled.clone()
    _flip_a_bit(entry(tmp_path) / f"{name}.npy")
    images = Images()
    found = stored(tmp_path, images, spatial=True)
    assert images.read == list(range(SHARD, 2 * SHARD))
    assert torch.equal(found.pooled, expected)
    assert same(found, computed(spatial=True))


def _of_another_shape(place: Path) -> None:
    np.save(place / "pooled.npy", np.zeros((3, 24), np.float32))


def _pickled(place: Path) -> None:
    np.save(place / "pooled.npy", np.array([{"a": 1}] * COUNT), allow_pickle=True)


def _without_index(place: Path) -> None:
    (place / "shards.json").write_text("{")


def _with_another_index(place: Path) -> None:
    (place / "shards.json").write_text(json.dumps({"0": ["pooled"], "1": {"pooled": 3}}))


@pytest.mark.parametrize("damage", [_of_another_shape, _pickled, _without_index, _with_another_index])
def test_whatever_is_damaged_is_computed_again(damage: Any, tmp_path: Path) -> None:
    expected = computed()
    stored(tmp_path)
    damage(entry(tmp_path))
    assert same(stored(tmp_path), expected)
    assert same(stored(tmp_path, again := Images()), expected)
    assert again.read == []


def test_too_few_images_are_an_error_and_not_zeros(tmp_path: Path) -> None:
    images = Images()
    images.pixels = images.pixels[:-1]
    with pytest.raises(ValueError, match="449 images, where there must be 450"):
        stored(tmp_path, images)


def test_features_that_are_not_finite_are_not_stored(tmp_path: Path) -> None:
    network = extractor()
    network.network.projection.data.fill_(float("inf"))
    with pytest.raises(FloatingPointError, match="NaN or infinite"):
        stored(tmp_path, network=network)


def test_a_place_that_cannot_be_written_is_named_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"features cannot be stored in .*make room there.*XDG_CACHE_HOME"):
        stored(tmp_path / "file")


def test_a_full_disk_is_an_error_that_a_rerun_resumes_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("tread_bench.measure.quality.feature_store.os.fsync", full)
        with pytest.raises(UserError, match=r"\(No space left on device\): make room there"):
            stored(tmp_path)
    assert same(stored(tmp_path), computed())


MEMORY = """
import resource, sys
from pathlib import Path
import torch
from test_feature_store import *

class Wide(nn.Module):
    def __init__(self):
        super().__init__()
        self.projection = nn.Parameter(torch.ones(3, 2048))

    def forward(self, pixels):
        return pixels.flatten(1).float() @ self.projection, None

class Tiny(Images):
    def __init__(self):
        self.count = 20_000

    def batches(self, size, start=0):
        for first in range(start, self.count, size):
            yield torch.zeros(min(size, self.count - first), 1, 1, 1, dtype=torch.uint8)

def peak_mib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10

network = Extractor("wide", Wide(), "w", 2048)
network.features(torch.zeros(BATCH, 1, 1, 1, dtype=torch.uint8))
before = peak_mib()
if sys.argv[1] == "stored":
    found = stored(Path(sys.argv[2]), Tiny(), network)
else:
    found = images_to_features(Tiny().batches(BATCH), network, count=20_000)
assert found.pooled.shape == (20_000, 2048)
print(peak_mib() - before)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("way", "share"), [("stored", 0.5), ("in memory", 1.3)])
def test_memory_stays_bounded(way: str, share: float, tmp_path: Path) -> None:
    done = python(MEMORY, way, tmp_path)
    assert done.returncode == 0, done.stderr
    size_mib = 20_000 * 2048 * 4 / 2**20
    assert float(done.stdout) < share * size_mib


def test_space_is_checked_before_the_first_shard_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = SimpleNamespace(free=COUNT * 24 * 4 - 1)
    monkeypatch.setattr("tread_bench.measure.quality.feature_store.shutil.disk_usage", lambda path: few)
    images = Images()
    with pytest.raises(UserError, match=r"cannot be stored in .* \(0\.00 GiB are needed\): make room there"):
        FeatureStore(tmp_path).features(images, extractor(), batch=BATCH)
    assert not [*tmp_path.rglob("*.npy")] and max(images.read) < SHARD
    few.free += 1
    assert FeatureStore(tmp_path).features(images, extractor(), batch=BATCH).pooled.shape == (COUNT, 24)


def test_the_size_on_disk_is_counted(tmp_path: Path) -> None:
    assert FeatureStore(tmp_path).bytes_used() == 0
    stored(tmp_path)
    assert FeatureStore(tmp_path).bytes_used() >= COUNT * 29 * 4
    assert FeatureStore(tmp_path / "nowhere").bytes_used() == 0
