"""Peak memory of this process, which does nothing else: the caller starts one for it."""

from __future__ import annotations

import re
import resource
import sys
from collections.abc import Callable
from pathlib import Path

import torch

from tread_bench.core.stored.records import MemoryKind

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
    # As Linux reports it; not every kernel or sandbox does.
    status = Path("/proc/self/status")
    found = re.search(r"^VmHWM:\s+(\d+) kB", status.read_text(), re.MULTILINE) if status.exists() else None
    if found:
        return int(found[1]) / 1024

    unit = 1 if sys.platform == "darwin" else 1024  # getrusage counts bytes on macOS, KiB elsewhere
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20
