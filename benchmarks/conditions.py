"""The conditions of a table: the machine, the versions, the load, the commit."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import psutil
import torch

from benchmarks.processes import CHECKOUT
from tread_bench.cell.numerics import machine, resolve_numerics, versions
from tread_bench.core.config.compute import Compute

PEERS = ("einops", "mambapy", "rwkv", "transformers", "triton", "causal-conv1d")
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
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        **commit(),
        "cpu": machine("cpu")["device_name"],
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "instruction_sets": instruction_sets(),
        "cpus": os.cpu_count(),
        "memory_mib": psutil.virtual_memory().total // 2**20,
        "system": f"{platform.system()} {platform.machine()}",
        "threads": threads,
        "load_average": load_average(),
        "numerics": numerics.model_dump(mode="json"),
        "versions": {**versions(), **peers()},
    }


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


def peers() -> dict[str, str]:
    """Versions of the packages that rows compare with, where they are installed."""
    found = {}
    for package in PEERS:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def commit() -> dict[str, Any]:
    """The checkout's commit, and whether its files differ from it; None without git."""
    try:
        name = _git("rev-parse", "HEAD")
        return {"commit": name, "changed": bool(_git("status", "--porcelain"))}
    except (OSError, subprocess.CalledProcessError):
        return {"commit": None, "changed": None}


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout.strip()
