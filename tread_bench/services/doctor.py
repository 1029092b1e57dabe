"""`doctor`: what this machine has, and what a run would use."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import psutil
import torch

from tread_bench.cell.numerics import (
    TF32_CAPABILITY,
    autocast_problem,
    cpu_name,
    resolve_numerics,
    versions,
)
from tread_bench.core.config.choices import DEFAULT_DATA
from tread_bench.core.config.compute import Compute
from tread_bench.core.config.metrics import Metrics
from tread_bench.core.describe.extractors import OUTPUTS, ExtractorFamily, extractors
from tread_bench.core.describe.families import families
from tread_bench.core.describe.kernels import KERNELS, missing
from tread_bench.core.describe.metrics import metrics
from tread_bench.core.stored.cache import cache_folder
from tread_bench.core.stored.conditions import blas_kernels
from tread_bench.core.stored.data_files import content_sha256
from tread_bench.core.stored.files import files_in
from tread_bench.measure.quality.features import choose_extractor
from tread_bench.measure.speed.gpu_conditions import nvml_problem
from tread_bench.measure.weights_folder import find_weights, is_as_published, weights_folder


def examine() -> dict[str, Any]:
    """Everything the command reports, as JSON values."""
    devices = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
    return {
        "cpu": f"{cpu_name()}, {os.cpu_count()} processors, {torch.backends.cpu.get_cpu_capability()}, "
        f"BLAS kernels {blas_kernels()}",
        "memory_mib": psutil.virtual_memory().total // 2**20,
        "gpus": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
        "cuda": _cuda(),
        "nvml": nvml_problem() or "yes: clocks, temperature and other processes are recorded with every timing",
        "versions": versions(),
        "families": {family.name: family.source for family in families().values()},
        "numerics": {device: resolve_numerics(Compute(), device).model_dump(mode="json") for device in devices},
        "kernels": {
            f"{kind}.{name}": missing(name, devices[-1]) or "yes" for kind, names in KERNELS.items() for name in names
        },
        "autocast": {name: autocast_problem(name, devices[-1]) or "yes" for name in ("bfloat16", "float16")},
        "feature_networks": {DEFAULT_DATA.name: _shipped_network()},
        "weights_folder": str(weights_folder()),
        "weights": {family.name: _weights(family) for family in extractors().values() if family.published},
        "stored_features_mib": sum(path.stat().st_size for path in files_in(cache_folder("features"))) // 2**20,
    }


def _cuda() -> str:
    if torch.cuda.is_available():
        tf32 = "has" if torch.cuda.get_device_capability() >= TF32_CAPABILITY else "has no"
        return f"CUDA {torch.version.cuda}; the GPU {tf32} TF32 (compute.matmul_precision: high)"
    built = "was built without CUDA" if torch.version.cuda is None else f"was built for CUDA {torch.version.cuda}"
    return f"torch sees no GPU (it {built})"


def _weights(family: ExtractorFamily) -> dict[str, Any]:
    """Whether the published weights of a feature network are there, which metrics need them, and who publishes them."""
    place = find_weights(family.name)
    needed_by = []
    for metric in metrics().values():
        outputs = metric.needs.intersection(OUTPUTS)
        if outputs and outputs <= family.outputs:
            needed_by.append(metric.name)
    return {
        "file": _file_of_weights(family, place) if place else "missing",
        "needed for": f"{family.distance}; all metrics of its outputs: {', '.join(needed_by)}",
        "published as": " or ".join(f"{one.file} ({one.where})" for one in family.published),
    }


def _file_of_weights(family: ExtractorFamily, place: Path) -> str:
    """The file, with its hash and whether that is the published one."""
    try:
        sha256 = content_sha256(str(place))
    except OSError as error:
        return f"{place} cannot be read ({error.strerror})"
    (published,) = (one for one in family.published if one.file == place.name)
    verdicts = {True: "as published", False: "not the published file", None: "no hash is published"}
    return f"{place}, sha256 {sha256[:12]}, {verdicts[is_as_published(published, sha256)]}"


def _shipped_network() -> str:
    extractor = choose_extractor(Metrics(), DEFAULT_DATA)
    return f"{extractor.name}, sha256 {extractor.sha256[:12]}"
