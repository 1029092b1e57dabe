"""Step times of a subject and its reference, interleaved so that drift affects both alike; and of a training loop.

Beside them: fixed work, in whose units step times of one machine on two days are comparable; a large product, for MFU;
the host's share, by torch's profiler, which slows small steps down, so that only the share is given; and the peak
memory of this process, which does nothing else: the caller starts one for it.
"""

from __future__ import annotations

import re
import resource
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch.profiler import ProfilerActivity, profile

from tread_bench.core.stored.records import MemoryKind
from tread_bench.data.loader import Loader

T = TypeVar("T")
Ready = Callable[[], Callable[[], object]]  # prepares the inputs of its next call, and returns that call
SIDE = 512  # of the matrices
HEADS = 8
TOKENS = 256
WIDTH = 64  # of a head
WARMUP = 3
REPEATS = 15
LARGE_SIDE = {"cpu": 1024, "cuda": 8192}  # of the matrices of a large product
LARGE_REPEATS = 5
_AUTOGRAD = ("autograd::engine", "Backward0")  # the engine and its nodes, which only call operators
STEPS = 3  # until the peak of memory: the optimiser's state exists from the second one on


@dataclass(frozen=True, slots=True)
class PairedTimes:
    """All samples in order, in milliseconds; the k-th of both are a pair."""

    reference_ms: list[float]
    subject_ms: list[float]


def interleave(
    reference: Ready,
    subject: Ready,
    pairs: int,
    warmup: int,
    now: Callable[[], float] = time.perf_counter,
) -> PairedTimes:
    """Time `pairs` pairs in the order A B B A A B ..., after `warmup` uncounted calls of each, with inputs prepared.

    `now` returns seconds, once the device has no work.
    """
    # Warm up.
    for _ in range(warmup):
        reference()()
        subject()()

    # Time pairs, in turn with the reference or the subject first.
    times = PairedTimes([], [])
    sides = [(reference, times.reference_ms), (subject, times.subject_ms)]
    for _ in range(pairs):
        for ready, times_ms in sides:
            call = ready()
            start = now()
            call()
            times_ms.append((now() - start) * 1e3)
        sides.reverse()
    return times


@dataclass(frozen=True, slots=True)
class LoopTime:
    """The mean time of one iteration of a training loop, and its share in which the device waited for a batch."""

    step_ms: float
    data_wait_share: float


def time_loop(
    batches: Loader[T],
    step: Callable[[T], object],
    steps: int,
    warmup: int,
    now: Callable[[], float] = time.perf_counter,
) -> LoopTime:
    """Time `steps` iterations together, after `warmup` uncounted ones, in which `batches` get ahead as usual.

    `now` returns seconds, once the device has no work.
    """
    for _ in range(warmup):
        step(next(batches))
    start = now()
    waited_before = batches.waited_s
    for _ in range(steps):
        step(next(batches))
    seconds = now() - start
    return LoopTime(seconds / steps * 1e3, (batches.waited_s - waited_before) / seconds)


def probe_ms(device: torch.device, now: Callable[[], float] = time.perf_counter) -> float:
    """Median time in ms of a float32 product of two 512 x 512 matrices and attention of 8 heads over 256 tokens.

    `now` returns seconds, once the device has no work.
    """
    # The same numbers on every machine.
    generator = torch.Generator().manual_seed(0)
    a, b = torch.randn(2, SIDE, SIDE, generator=generator).to(device)
    q, k, v = torch.randn(3, 1, HEADS, TOKENS, WIDTH, generator=generator).to(device)

    def both() -> None:
        a @ b
        F.scaled_dot_product_attention(q, k, v)

    return median_s(both, REPEATS, now) * 1e3


def product_macs_per_s(
    device: torch.device, dtype: torch.dtype = torch.float32, now: Callable[[], float] = time.perf_counter
) -> float:
    """Multiply-adds per second of a product of two large square matrices of `dtype`, by the median of a few.

    `now` returns seconds, once the device has no work.
    """
    side = LARGE_SIDE[device.type]
    a, b = torch.ones(2, side, side, dtype=dtype, device=device)
    return side**3 / median_s(lambda: a @ b, LARGE_REPEATS, now)


def median_s(work: Callable[[], object], repeats: int, now: Callable[[], float]) -> float:
    """Median seconds of some work, after a warm-up."""
    times = []
    with torch.no_grad():
        for _ in range(WARMUP + repeats):
            start = now()
            work()
            times.append(now() - start)
    return statistics.median(times[WARMUP:])


def host_share(ready: Callable[[], Callable[[], object]], device: torch.device, steps: int = 3) -> float:
    """Return the share of a training step in which no operator ran on the device: Python, dispatch, launching kernels.

    Args:
        ready: prepares the inputs of the next step, and returns that step.
        device: where it runs.
        steps: that are profiled; some must have run before.
    """
    is_gpu = device.type == "cuda"
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if is_gpu else [])]

    # Profile some steps. The profiler itself is set up on its first use.
    calls = [ready() for _ in range(steps)]
    with profile(activities=activities):
        torch.ones(1, device=device).add_(1)
    with profile(activities=activities) as profiled:
        start = time.perf_counter()
        for call in calls:
            call()
        if is_gpu:
            torch.cuda.synchronize(device)
        wall_us = (time.perf_counter() - start) * 1e6

    # The own time of every operator, on the device where it ran; what is left is the host's.
    busy_us = 0.0
    for event in profiled.events():
        is_operator = not any(mark in event.name for mark in _AUTOGRAD)
        if event.device_type.name == "CPU" and is_operator:  # kernels are counted with the operators that launched them
            busy_us += event.self_device_time_total if is_gpu else event.self_cpu_time_total
    return max(0.0, 1 - busy_us / wall_us)


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
