"""The conditions of a table: the machine, the versions, the load, the commit."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from typing import Any

import psutil
import torch

from tread_bench.cell.numerics import installed, machine, resolve_numerics, versions
from tread_bench.core.config.compute import Compute
from tread_bench.measure.speed.gpu_conditions import nvml_problem
from tread_bench.runner.prepare import git_state

PEERS = ("einops", "rwkv", "triton", "causal-conv1d")
INSTRUCTION_SETS = (
    "avx2",
    "fma",
    "avx512f",
    "avx512_bf16",
    "avx512_fp16",
    "avx_vnni",
    "amx_tile",
    "amx_bf16",
    "asimd",
    "sve",
)


def conditions(threads: int) -> dict[str, Any]:
    """What figures depend on; no host, no user, no path."""
    numerics = resolve_numerics(Compute(threads=threads), "cpu")
    return {
        **machine_and_versions(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "instruction_sets": instruction_sets(),
        "threads": threads,
        "load_average": load_average(),
        "numerics": numerics.model_dump(mode="json"),
    }


def gpu_conditions() -> dict[str, Any]:
    """The same of what is measured on a GPU; how a step is computed is in the plan of its run."""
    devices = range(torch.cuda.device_count())
    return {
        **machine_and_versions(),
        "gpus": [torch.cuda.get_device_name(device) for device in devices],
        "gpu_memory_mib": torch.cuda.get_device_properties(0).total_memory // 2**20,
        "driver": driver_version(),
        "cuda": torch.version.cuda,
    }


def machine_and_versions() -> dict[str, Any]:
    """What every figure depends on."""
    git = git_state()
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": git.commit if git else None,
        "changed": git.changed if git else None,
        "cpu": machine("cpu")["device_name"],
        "cpus": os.cpu_count(),
        "memory_mib": psutil.virtual_memory().total // 2**20,
        "system": f"{platform.system()} {platform.machine()}",
        "versions": {**versions(), **installed(PEERS)},
    }


def driver_version() -> str | None:
    """Of the GPU's driver; None where NVML cannot be read."""
    if nvml_problem() is not None:
        return None
    import pynvml

    return str(pynvml.nvmlSystemGetDriverVersion())


def load_average() -> list[float]:
    """Of the last 1, 5 and 15 minutes; on a quiet machine at most the number of threads."""
    return [round(load, 2) for load in os.getloadavg()]


def instruction_sets() -> list[str]:
    """Those of the CPU that products of matrices may use."""
    try:
        with open("/proc/cpuinfo") as file:
            flags = next((line for line in file if line.startswith(("flags", "Features"))), "").split()
    except OSError:
        return []
    return [name for name in INSTRUCTION_SETS if name in flags]
