"""Statistics of feature sets in a file of the cache: one that is damaged counts as missing."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from tread_bench.core.stored.cache import keep
from tread_bench.data.source import tensors_sha256
from tread_bench.measure.quality.statistics import FeatureStatistics

_PREFIXES = ("", "spatial_")  # of the tensors in a file


class Statistics(NamedTuple):
    """Of the features of a set of images, and of its spatial ones where the network has them."""

    pooled: FeatureStatistics
    spatial: FeatureStatistics | None = None

    def to(self, device: torch.device) -> Statistics:
        """Return the same on that device."""
        return Statistics(self.pooled.to(device), None if self.spatial is None else self.spatial.to(device))


def save_statistics(statistics: Statistics, path: Path, key: str) -> None:
    """Write the sums and the features that are kept, not the logits; where that is not possible, nothing is written.

    Args:
        key: hash of what they are of.
    """
    tensors = {}
    for prefix, part in zip(_PREFIXES, statistics, strict=True):
        if part is not None:
            tensors[f"{prefix}count"] = torch.tensor(part.count)
            tensors[f"{prefix}total"] = part.total.cpu()
            tensors[f"{prefix}outer"] = part.outer.cpu()
    tensors["features"] = statistics.pooled.features.cpu()
    keep(path, save(tensors, {"key": key, "content": tensors_sha256(tensors)}))


def load_statistics(path: Path, key: str) -> Statistics | None:
    """Return what was saved under that key, on the CPU; None where there is no such file, or it is damaged."""
    try:
        with safe_open(path, framework="pt") as file:
            about = file.metadata() or {}
            names = file.keys()
            tensors = {name: file.get_tensor(name) for name in names}
    except (OSError, SafetensorError):
        return None
    if about.get("key") != key or about.get("content") != tensors_sha256(tensors):
        return None
    found = []
    for prefix, features in zip(_PREFIXES, (tensors["features"], torch.empty(0)), strict=True):
        if f"{prefix}count" in tensors:
            count, total, outer = (tensors[f"{prefix}{name}"] for name in ("count", "total", "outer"))
            found.append(FeatureStatistics.restored(int(count), total, outer, features))
    return Statistics(*found)
