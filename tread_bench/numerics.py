"""Numerical choices of a run: made once, written to plan.json, set by every process before it computes."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

from tread_bench.config import Compute
from tread_bench.kernels import resolve_kernels

LARGEST_RELATIVE_ERROR = 2e-6  # that a faster float32 product may have and still be taken without being asked for
_PACKAGES = ("tread-bench", "torch", "timm", "torch-fidelity", "numpy", "pandas", "scikit-learn", "mamba-ssm")


def matmul_error(precision: str, device: str) -> float:
    """Largest error of a float32 product (512 terms) under `precision`, relative to the largest entry in float64."""
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(512, 512, generator=generator, dtype=torch.float64) for _ in range(2))
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision(precision)
        product = (a.float().to(device) @ b.float().to(device)).cpu().double()
    finally:
        torch.set_float32_matmul_precision(before)
    exact = a.float().double() @ b.float().double()
    return float((product - exact).abs().max() / exact.abs().max())


def resolve_numerics(compute: Compute, device: str) -> dict[str, Any]:
    """Every choice spelled out (JSON values), and what it was made on.

    `matmul_precision: auto` is "medium" on a CPU where that keeps float32's accuracy (it selects a faster library
    there), else "highest".

    Raises:
        ValueError: a device that this machine does not have, an unknown kernel.
    """
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError("--device cuda: torch sees no CUDA device here; use --device cpu, or see `tread-bench doctor`")
    precision = compute.matmul_precision
    if precision == "auto":
        faster_is_exact = device == "cpu" and matmul_error("medium", device) <= LARGEST_RELATIVE_ERROR
        precision = "medium" if faster_is_exact else "highest"
    return {
        "device": device,
        "device_count": torch.cuda.device_count() if device == "cuda" else 1,
        "device_name": torch.cuda.get_device_name() if device == "cuda" else cpu_name(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "threads": compute.threads,
        "matmul_precision": precision,
        "matmul_relative_error": matmul_error(precision, device),
        "autocast": compute.autocast,
        "torch": str(torch.__version__),  # a plain string: its own class would make the runner import torch
        "kernels": resolve_kernels(compute.kernels.model_dump(), device),
    }


def settle(compute: Compute, device: str) -> dict[str, Any]:
    """What plan.json says of the machine, in a process that has torch."""
    torch.set_num_threads(compute.threads)
    return {"numerics": resolve_numerics(compute, device), "versions": versions()}


def apply_numerics(numerics: dict[str, Any]) -> torch.device:
    """Set this process's threads and precision; the device to compute on."""
    torch.set_num_threads(numerics["threads"])
    torch.set_float32_matmul_precision(numerics["matmul_precision"])
    if numerics["device"] == "cuda":
        torch.backends.cudnn.benchmark = False
        torch.backends.cudnn.allow_tf32 = numerics["matmul_precision"] != "highest"
    return torch.device(numerics["device"])


def versions() -> dict[str, str]:
    """Python and the packages that figures depend on."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    found["torch"] = str(torch.__version__)
    return found


def cpu_name() -> str:
    """As the operating system calls it."""
    try:
        with open("/proc/cpuinfo") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
