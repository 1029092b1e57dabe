"""Peak memory of this process, which does nothing else: the caller starts one for it."""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable
from pathlib import Path

import torch

from tread_bench.core.records import MemoryKind

STEPS = 3  # the optimiser's state exists from the second step on


def peak_memory(step: Callable[[], object], device: torch.device) -> tuple[float, MemoryKind]:
    """MiB over a few training steps: the allocator's peak on CUDA, else the process's peak resident set.

    The resident set includes libraries and the interpreter: informative, but not a basis for a verdict.
    """
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    for _ in range(STEPS):
        step()
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20, "allocator"
    return peak_resident_mib(), "resident set"


def peak_resident_mib() -> float:
    """Peak of this process's resident memory in MiB; on Linux without that of its parent, which getrusage includes."""
    if sys.platform == "linux":
        status = Path("/proc/self/status").read_text()
        return float(status.split("VmHWM:")[1].split()[0]) / 1024
    unit = 1 if sys.platform == "darwin" else 1024  # getrusage counts bytes on macOS, KiB elsewhere
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20
