"""Numerical choices of a run: made once, written to plan.json, set by every process before it computes."""

from __future__ import annotations

import ctypes
import platform
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib.metadata import PackageNotFoundError, version

import torch
import torch.nn.functional as F
from threadpoolctl import threadpool_limits

from tread_bench.cell.kernels import resolve_kernels
from tread_bench.core.config.compute import Compute, StepOptions
from tread_bench.core.describe.data_sources import DataOptions
from tread_bench.core.describe.plugins import third_parties
from tread_bench.core.errors import UserError
from tread_bench.core.stored.conditions import BLAS_KERNELS, PLUG_IN, Numerics, RunNumerics, blas_kernels
from tread_bench.core.stored.documents import Choices, RunPlan
from tread_bench.data.check import data_problems

LARGEST_RELATIVE_ERROR = 2e-6  # that a faster float32 product may have and still be chosen by default
_TO_COMPILE = "it needs a C++ compiler (g++, clang, MSVC), on a GPU triton too; or set compute.compile to false"
_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # of glibc's malloc.h
TF32_CAPABILITY = (8, 0)  # of the GPU: Ampere
_PACKAGES = (
    *("tread-bench", "torch", "timm", "torch-fidelity", "numpy", "pandas", "scikit-learn", "numba", "mamba-ssm"),
    "diffusers",  # which may decode samples
)


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


def usable_device(device: str) -> str:
    """Return the device, where "auto" is CUDA if there is one. Raises UserError where this machine does not have it."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise UserError(
            "--device cuda: torch sees no CUDA device here; use --device cpu (a run that was started on cuda resumes "
            "on a machine with one), or see `tread-bench doctor`"
        )
    return device


def resolve_numerics(compute: Compute, device: str) -> RunNumerics:
    """Return every choice resolved, and the machine it was resolved on; `device` "auto" is CUDA where there is one.

    `matmul_precision: auto` is "medium" on a CPU where that keeps float32's accuracy (it selects a faster library
    there), else "highest"; on a GPU "high" and "medium" are TF32.

    Raises:
        UserError: a device that this machine does not have, an unknown kernel, an autocast type or torch.compile
            where they do not work.
    """
    # Refuse what does not work here.
    device = usable_device(device)
    check_step_options(compute, device)

    # The precision of float32 products.
    precision = compute.matmul_precision
    if precision == "auto":
        faster_is_exact = device == "cpu" and matmul_error("medium", device) <= LARGEST_RELATIVE_ERROR
        precision = "medium" if faster_is_exact else "highest"
    draws = {"draws": "device"} if device == "cuda" else {}
    has_tf32 = device == "cuda" and torch.cuda.get_device_capability() >= TF32_CAPABILITY
    return RunNumerics.model_validate(
        {
            "device": device,
            "device_count": torch.cuda.device_count() if device == "cuda" else 1,
            **machine(device),
            "threads": compute.threads,
            "matmul_precision": precision,
            "matmul_relative_error": matmul_error(precision, device),
            "tf32": precision != "highest" and has_tf32,
            **step_options(compute).model_dump(),
            "kernels": resolve_kernels(compute.kernels.model_dump(), device),
            **draws,
        }
    )


def machine(device: str) -> dict[str, str]:
    """Return the properties of this process's machine that figures depend on."""
    return {
        "device_name": torch.cuda.get_device_name() if device == "cuda" else cpu_name(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        BLAS_KERNELS: blas_kernels(),
        "torch": str(torch.__version__),  # a plain string: its own class would make the runner import torch
    }


def as_here(plan: RunPlan) -> RunPlan:
    """Return a run's plan.json with the machine and the versions of this process."""
    numerics = plan.numerics.model_copy(update=machine(plan.numerics.device))
    return plan.model_copy(update={"numerics": numerics, "versions": versions()})


def step_options(numerics: Numerics | StepOptions) -> StepOptions:
    """Return how a training step computes, among the numerical choices of a run."""
    return StepOptions(**{name: getattr(numerics, name) for name in StepOptions.model_fields})


def check_step_options(options: StepOptions, device: str) -> None:
    """Try the requested options on a few numbers. Raises UserError where they do not work here."""
    if options.autocast != "none":
        problem = autocast_problem(options.autocast, device)
        if problem:
            raise UserError(f"compute.autocast: {options.autocast} {problem}; choose another type, or none")
    if options.compile:
        problem = _problem(lambda: torch.compile(torch.cos)(torch.ones(8, device=device)))
        if problem:
            raise UserError(f"compute.compile: torch.compile {problem}; {_TO_COMPILE}")


def autocast_problem(name: str, device: str) -> str | None:
    """Why that type does not work on a device; None where it does."""
    return _problem(partial(_small_network, device, getattr(torch, name)))


def _problem(call: Callable[[], object]) -> str | None:
    try:
        call()
    except Exception as error:
        reason = str(error).strip().splitlines() or [type(error).__name__]
        return f"does not work here ({reason[0]})"
    return None


def _small_network(device: str, dtype: torch.dtype) -> None:
    """The operations that backbones are made of, forward and backward, under autocast."""
    image, kernel = (torch.ones(shape, device=device, requires_grad=True) for shape in ((2, 1, 4, 4), (8, 1, 2, 2)))
    with torch.autocast(device, dtype=dtype):
        tokens = F.conv2d(image, kernel, stride=2).flatten(2).mT
        attended = F.layer_norm((tokens @ tokens.mT).softmax(dim=-1) @ tokens, (8,))
        hidden = F.gelu(F.linear(attended, tokens[0])) + F.scaled_dot_product_attention(tokens, tokens, tokens).sum()
    hidden.float().square().sum().backward()


def resolve_choices(
    compute: Compute, device: str, data: Sequence[tuple[DataOptions, bool]] = (), reads_everything: bool = False
) -> Choices:
    """Return what plan.json says about the machine where cells will run, as a run's first task there.

    Args:
        data: what cells read, each with whether samples are generated.
        reads_everything: every sample is checked, since nothing has read them yet.

    Raises:
        UserError: with a line for each, where data files cannot be used there.
    """
    problems = data_problems(data, reads_everything)
    if problems:
        raise UserError("\n".join(problems))
    torch.set_num_threads(compute.threads)
    return Choices(numerics=resolve_numerics(compute, device), versions=versions())


def apply_numerics(numerics: RunNumerics) -> torch.device:
    """Set this process's threads, precision and use of memory; the device to compute on."""
    keep_freed_memory()
    torch.set_num_threads(numerics.threads)
    threadpool_limits(numerics.threads, user_api="blas")
    precision = numerics.matmul_precision or "highest"  # torch's own default where a plan does not say it
    torch.set_float32_matmul_precision(precision)
    if numerics.device == "cuda":
        torch.backends.cudnn.benchmark = False
        torch.backends.cudnn.allow_tf32 = precision != "highest"
    return torch.device(numerics.device)


def keep_freed_memory() -> None:
    """Let this process reuse large blocks that it frees; does nothing where the C library has no `mallopt`.

    By itself glibc returns them to the system, which fills each page with zeros before it gives it out again: a tenth
    of a step of DiT-S/2.
    """
    if sys.platform == "linux" and (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)):
        mallopt(_MMAP_MAX, 0)
        mallopt(_TRIM_THRESHOLD, 2**31 - 1)


def versions() -> dict[str, str]:
    """Python, the packages that figures depend on, and the distributions that announce plug-ins."""
    plugins = {f"{PLUG_IN}{name}": version for name, version in third_parties().items()}
    return {"python": platform.python_version(), **installed(_PACKAGES), "torch": str(torch.__version__), **plugins}


def installed(packages: Iterable[str]) -> dict[str, str]:
    """Versions of those that are installed."""
    found = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
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
