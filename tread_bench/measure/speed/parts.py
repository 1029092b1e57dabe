"""Where the time of a training step goes: products, attention, scans, moved tokens, the optimiser, the host.

Torch's profiler gives the own time of every operator, on the device where it ran. It slows small steps down, so only
shares are given; step times are measured without it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch.autograd.profiler_util import FunctionEvent
from torch.profiler import ProfilerActivity, profile

from tread_bench.core.stored.records import STEP_PARTS, StepPart

_AUTOGRAD = ("autograd::engine", "Backward0")  # the engine and its nodes, which only call operators
_WITH_ALL_INSIDE: dict[StepPart, tuple[str, ...]] = {  # what such an operator calls belongs to it
    "optimiser": ("Optimizer.", "_foreach_", "_fused_adam"),
    "attention": ("scaled_dot_product", "flash_attention", "efficient_attention", "fmha"),
    "scans": ("scan", "wkv"),
}
_ALONE: dict[StepPart, tuple[str, ...]] = {
    "host": _AUTOGRAD,
    "attention": ("softmax", "::bmm", "::baddbmm"),  # a batched product is one of tokens with tokens
    "moved tokens": ("gather", "scatter", "index"),
    "products": ("::mm", "::addmm", "::linear", "::conv", "mkldnn_conv", "cudnn_conv"),
}


def part_of(operator: FunctionEvent) -> StepPart:
    """Return the part of a step that an operator's own time belongs to, by its name and by those that called it."""
    caller: FunctionEvent | None = operator
    while caller is not None:
        for part, marks in _WITH_ALL_INSIDE.items():
            if any(mark in caller.name for mark in marks):
                return part
        caller = caller.cpu_parent
    for part, marks in _ALONE.items():
        if any(mark in operator.name for mark in marks):
            return part
    return "other operators"


def step_parts(
    ready: Callable[[], Callable[[], object]], device: torch.device, steps: int = 3
) -> dict[StepPart, float]:
    """Return the share of each part in the time of a training step under the profiler; together 1.

    "host" is the time in which no operator ran on the device: Python, dispatch, and launching kernels. "other
    operators" are element-wise work, norms, reductions, copies, and what the project computes in one operator.

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

    # Each operator's own time belongs to one part; what is left is the host's.
    times_us = dict.fromkeys(STEP_PARTS, 0.0)
    for event in profiled.events():
        if event.device_type.name == "CPU":  # kernels are counted with the operators that launched them
            part = part_of(event)
            times_us[part] += event.self_device_time_total if is_gpu else event.self_cpu_time_total
    busy_us = sum(us for part, us in times_us.items() if part != "host")
    times_us["host"] = max(0.0, wall_us - busy_us)
    return {part: us / (busy_us + times_us["host"]) for part, us in times_us.items()}
