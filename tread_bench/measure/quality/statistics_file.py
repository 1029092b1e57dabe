"""Statistics of feature sets as .npz files of the cache: one that is damaged counts as missing."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import numpy as np
import torch

from tread_bench.core.stored.files import replacing
from tread_bench.core.stored.foreign import open_file
from tread_bench.core.stored.outputs import OutputError
from tread_bench.measure.quality.statistics import FeatureStatistics, Statistics

_PREFIXES = ("", "spatial_")  # of the arrays in a file


def save_statistics(statistics: Statistics, path: Path) -> None:
    """Write the sums, and the features and logits that are kept; where that is not possible, nothing is written."""
    pooled = statistics.pooled
    arrays = {"features": pooled.features.cpu().numpy()}
    if pooled.has_logits:
        arrays["logits"] = pooled.logits.numpy()
    for prefix, part in zip(_PREFIXES, statistics, strict=True):
        if part is not None:
            arrays[f"{prefix}count"] = np.array(part.count)
            arrays[f"{prefix}total"] = part.total.cpu().numpy()
            arrays[f"{prefix}outer"] = part.outer.cpu().numpy()
    with suppress(OSError, OutputError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary, temporary.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)


def load_statistics(path: Path) -> Statistics | None:
    """Return what was saved, on the CPU; None where there is no such file, or it is damaged."""
    try:
        with open_file(path) as file, np.load(file, allow_pickle=False) as stored:
            arrays = {name: torch.from_numpy(stored[name]) for name in stored.files}
        found = []
        for prefix, features, logits in zip(
            _PREFIXES, (arrays["features"], torch.empty(0)), (arrays.get("logits"), None), strict=True
        ):
            if f"{prefix}count" in arrays:
                count, total, outer = (arrays[f"{prefix}{name}"] for name in ("count", "total", "outer"))
                found.append(FeatureStatistics.restored(int(count), total, outer, features, logits))
        return Statistics(*found)
    except Exception:  # a damaged file may raise anything
        return None
