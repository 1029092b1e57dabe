"""Functions of other packages, where they are installed."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from types import ModuleType
from typing import Any
from unittest.mock import patch

import torch

from benchmarks.row import SkippedError


def needed(module: str, package: str) -> None:
    """Raises SkippedError where a module is not installed."""
    if importlib.util.find_spec(module) is None:
        raise SkippedError(f"not installed: pip install {package}")


def mamba_ssm_scan() -> Any:
    """mamba-ssm's `selective_scan_ref`: (u, delta, A, B, C) with u, delta (B, D, L), B, C (B, N, L)."""
    needed("mamba_ssm", "einops && pip install --no-build-isolation --no-deps mamba-ssm")
    needed("einops", "einops")
    with _without_its_cuda_extension():
        return importlib.import_module("mamba_ssm.ops.selective_scan_interface").selective_scan_ref


@contextmanager
def _without_its_cuda_extension() -> Iterator[None]:
    """Importing mamba_ssm imports its CUDA extension, which its reference does not use; nothing is left behind."""
    found = importlib.util.find_spec("mamba_ssm")
    assert found is not None and found.submodule_search_locations is not None
    package = ModuleType("mamba_ssm")
    package.__path__ = list(found.submodule_search_locations)
    others = {name: module for name, module in sys.modules.items() if name.split(".")[0] != "mamba_ssm"}
    stubs = {"mamba_ssm": package, "selective_scan_cuda": ModuleType("selective_scan_cuda")}
    with patch.dict(sys.modules, {**others, **stubs}, clear=True):
        yield


def rwkv_time_mixing() -> Any:
    """The time mixing of RWKV-4 in the `rwkv` package, without TorchScript; see its `RWKV.att_seq`."""
    needed("rwkv", "rwkv")
    flags = torch.backends.cudnn.benchmark, torch.backends.cudnn.allow_tf32
    precision = torch.get_float32_matmul_precision()
    with patch.dict(os.environ, RWKV_JIT_ON="0", RWKV_CUDA_ON="0"), redirect_stdout(StringIO()):
        model = importlib.import_module("rwkv.model")
    torch.backends.cudnn.benchmark, torch.backends.cudnn.allow_tf32 = flags  # which its import changes
    torch.set_float32_matmul_precision(precision)
    return model.RWKV.att_seq
