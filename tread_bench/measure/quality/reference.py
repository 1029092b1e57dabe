"""Statistics of the real images that generated ones are compared with, cached by the hash of their inputs."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from tread_bench.core.cache import cache_folder, one_at_a_time
from tread_bench.core.files import write_atomically
from tread_bench.core.outputs import OutputError
from tread_bench.measure.quality.statistics import FeatureStatistics

if TYPE_CHECKING:
    from tread_bench.data.source import DataSource, RealImages
    from tread_bench.measure.quality.features import Extractor

REFERENCE_FEATURES = 10_000  # kept one by one for KID, precision and recall; FID uses all images, as ADM's files do
_BATCH = 250
_IN_THIS_PROCESS: dict[str, Reference] = {}


@dataclass(frozen=True)
class Reference:
    """Statistics that generated images are compared with; `sha256` is that of the images."""

    sha256: str
    statistics: FeatureStatistics


def reference_of(data: DataSource, extractor: Extractor) -> Reference:
    """Statistics of all real images, computed once per cache folder: other processes wait for them meanwhile."""
    images = data.reference
    key = _key(images, extractor)
    if key not in _IN_THIS_PROCESS:
        path = cache_folder("reference") / f"{key}.safetensors"
        with one_at_a_time(key):
            statistics = _load(path, key)
            if statistics is None:
                statistics = statistics_of(images, extractor)
                _save(statistics, path, key)
        _IN_THIS_PROCESS[key] = Reference(images.sha256, statistics)
    return _IN_THIS_PROCESS[key]


def _key(images: RealImages, extractor: Extractor) -> str:
    """Contents, preprocessing, and what changes last bits: a cell has the same result whether it finds or makes one."""
    preprocessing = f"uint8, grey repeated, float32, at most {REFERENCE_FEATURES} kept, batch {_BATCH}"
    capability = torch.backends.cpu.get_cpu_capability()
    machine = (torch.__version__, str(extractor.device), capability, torch.get_num_threads())
    return hashlib.sha256(repr((images.sha256, extractor.sha256, preprocessing, machine)).encode()).hexdigest()


def statistics_of(images: RealImages, extractor: Extractor) -> FeatureStatistics:
    """Compute them; features are kept of every n-th image, with the smallest n that keeps at most 10,000."""
    statistics = FeatureStatistics(extractor.dims)
    stride = -(-len(images) // REFERENCE_FEATURES)
    for pixels in images.batches(_BATCH):
        features = extractor.features(pixels).pooled
        statistics.add(features, kept=slice(-statistics.count % stride, None, stride))
    return statistics


def _save(statistics: FeatureStatistics, path: Path, key: str) -> None:
    tensors = {
        "count": torch.tensor(statistics.count),
        "total": statistics.total,
        "outer": statistics.outer,
        "features": statistics.features,
    }
    with suppress(OSError, OutputError):  # a cache that cannot be written costs time, not results
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, save(tensors, {"key": key, "content": _content_hash(tensors)}))


def _load(path: Path, key: str) -> FeatureStatistics | None:
    """None where there is no such file, or where its content is not what was written."""
    try:
        with safe_open(path, framework="pt") as file:
            about = file.metadata() or {}
            names = file.keys()
            tensors = {name: file.get_tensor(name) for name in names}
    except (OSError, SafetensorError):
        return None
    if about.get("key") != key or about.get("content") != _content_hash(tensors):
        return None
    return FeatureStatistics.restored(int(tensors["count"]), tensors["total"], tensors["outer"], tensors["features"])


def _content_hash(tensors: dict[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(f"{name} {tuple(tensors[name].shape)}".encode())
        digest.update(tensors[name].contiguous().numpy().data)
    return digest.hexdigest()
