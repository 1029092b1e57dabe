"""How much of a training step's time the host takes, by torch's profiler.

It slows small steps down, so only the share is given; step times are measured without it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch.profiler import ProfilerActivity, profile

_AUTOGRAD = ("autograd::engine", "Backward0")  # the engine and its nodes, which only call operators


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
