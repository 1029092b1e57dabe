"""What NVML reports on the GPU before and after a measurement; `regression.compare` evaluates it.

It uses NVIDIA's nvidia-ml-py, the extra `gpu`. None without it, without a driver, or where a device does not report.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tread_bench.core.stored.records import GpuConditions

THROTTLE_REASONS = {  # that slow it down, as this project writes them -> as NVML names their bits
    "software power cap": "SwPowerCap",
    "hardware slowdown": "HwSlowdown",
    "software thermal slowdown": "SwThermalSlowdown",
    "hardware thermal slowdown": "HwThermalSlowdown",
    "hardware power brake": "HwPowerBrakeSlowdown",
}


def nvml_problem() -> str | None:
    """Why NVML cannot be read here; None where it can."""
    try:
        import pynvml
    except ImportError:
        return "nvidia-ml-py is not installed: pip install 'tread-bench[gpu]'"
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return f"NVML does not start: {error}"
    return None


def gpu_reader(device: torch.device) -> Callable[[], GpuConditions | None]:
    """Return a function that reads the device's conditions at the time of the call."""
    if device.type != "cuda" or nvml_problem() is not None:
        return lambda: None
    uuid = f"GPU-{torch.cuda.get_device_properties(device).uuid}"
    return lambda: read_gpu(uuid)


def read_gpu(uuid: str) -> GpuConditions | None:
    """Conditions of the GPU with that UUID, with NVML open; None where it has none (for example a MIG slice)."""
    import pynvml

    def answer(call: Callable[..., Any], *arguments: object) -> Any:
        """NVML's answer; None where the device does not report it."""
        try:
            return call(*arguments)
        except pynvml.NVMLError:
            return None

    handle = answer(pynvml.nvmlDeviceGetHandleByUUID, uuid)
    if handle is None:
        return None
    processes = answer(pynvml.nvmlDeviceGetComputeRunningProcesses, handle)
    reasons = answer(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle)
    bits = {name: getattr(pynvml, f"nvmlClocksThrottleReason{bit}") for name, bit in THROTTLE_REASONS.items()}
    return GpuConditions(
        sm_clock_mhz=answer(pynvml.nvmlDeviceGetClockInfo, handle, pynvml.NVML_CLOCK_SM),
        throttle_reasons=None if reasons is None else [name for name, bit in bits.items() if reasons & bit],
        # this one holds a context; in a container it is listed under the number that it has outside
        other_processes=None if processes is None else max(0, len({process.pid for process in processes}) - 1),
    )
