"""The command `doctor`: what this machine has, and what a run would use."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import typer

from tread_bench.cli.options import JsonOption

if TYPE_CHECKING:
    from tread_bench.core.describe.metrics import ExtractorFamily


def doctor(as_json: JsonOption = False) -> None:
    """Show what this machine has: device, kernels, versions, weights."""
    from rich.table import Table

    from tread_bench.cli.console import stdout_console

    found = examine()
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    table = Table(show_header=False)
    for key, value in found.items():
        for name, text in value.items() if isinstance(value, dict) else {"": value}.items():
            table.add_row(f"{key} {name}".strip(), _text(text))
    stdout_console().print(table)


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return "; ".join(f"{k} {_text(v)}" for k, v in value.items())
    return (", ".join(value) or "none") if isinstance(value, list) else str(value)


def examine() -> dict[str, Any]:
    """Return everything that the command shows, as JSON values."""
    import psutil
    import torch

    from tread_bench.cell.kernels import KERNELS, missing
    from tread_bench.cell.numerics import TF32_CAPABILITY, autocast_problem, cpu_name, resolve_numerics, versions
    from tread_bench.core.config.choices import DEFAULT_DATA
    from tread_bench.core.config.compute import Compute
    from tread_bench.core.config.metrics import Metrics
    from tread_bench.core.describe.families import families
    from tread_bench.core.describe.metrics import extractors
    from tread_bench.core.stored.conditions import blas_kernels
    from tread_bench.measure.quality.features import choose_extractor
    from tread_bench.measure.speed.gpu_conditions import nvml_problem
    from tread_bench.measure.weights_folder import weights_folder

    # The devices.
    devices = ["cpu"]
    built = "was built without CUDA" if torch.version.cuda is None else f"was built for CUDA {torch.version.cuda}"
    cuda = f"torch sees no GPU (it {built})"
    if torch.cuda.is_available():
        devices.append("cuda")
        tf32 = "has" if torch.cuda.get_device_capability() >= TF32_CAPABILITY else "has no"
        cuda = f"CUDA {torch.version.cuda}; the GPU {tf32} TF32 (compute.matmul_precision: high)"
    kernels: dict[str, str] = {}
    for kind, names in KERNELS.items():
        kernels |= {f"{kind}.{name}": missing(name, devices[-1]) or "yes" for name in names}
    shipped = choose_extractor(Metrics(), DEFAULT_DATA)

    return {
        "cpu": f"{cpu_name()}, {os.cpu_count()} processors, {torch.backends.cpu.get_cpu_capability()}, "
        f"BLAS kernels {blas_kernels()}",
        "memory_mib": psutil.virtual_memory().total // 2**20,
        "gpus": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
        "cuda": cuda,
        "nvml": nvml_problem() or "yes: clocks, temperature and other processes are recorded with every timing",
        "versions": versions(),
        "families": {family.name: family.source for family in families().values()},
        "numerics": {device: resolve_numerics(Compute(), device).model_dump(mode="json") for device in devices},
        "kernels": kernels,
        "autocast": {name: autocast_problem(name, devices[-1]) or "yes" for name in ("bfloat16", "float16")},
        "feature_networks": {DEFAULT_DATA.name: f"{shipped.name}, sha256 {shipped.sha256[:12]}"},
        "weights_folder": str(weights_folder()),
        "weights": {family.name: _weights(family) for family in extractors().values() if family.published},
    }


def _weights(family: ExtractorFamily) -> dict[str, str]:
    """Whether the published weights of a feature network are there, which metrics need them, and who publishes them."""
    from tread_bench.core.describe.metrics import Needs, metrics
    from tread_bench.core.stored.data_files import content_sha256
    from tread_bench.measure.weights_folder import find_weights, is_as_published

    place, file = find_weights(family.name), "missing"
    if place is not None:
        try:
            sha256 = content_sha256(str(place))
        except OSError as error:
            file = f"{place} cannot be read ({error.strerror})"
        else:
            (published,) = (one for one in family.published if one.file == place.name)
            verdicts = {True: "as published", False: "not the published file", None: "no hash is published"}
            file = f"{place}, sha256 {sha256[:12]}, {verdicts[is_as_published(published, sha256)]}"
    outputs = {Needs.FEATURES, Needs.STATISTICS, Needs.LOGITS, Needs.SPATIAL}
    reads_it = [metric for metric in metrics().values() if metric.needs & outputs]
    needed_by = [metric.name for metric in reads_it if not family.lacks(metric)]
    return {
        "file": file,
        "needed for": f"{family.distance}; all metrics of its outputs: {', '.join(needed_by)}",
        "published as": " or ".join(f"{one.file} ({one.where})" for one in family.published),
    }
