"""What holds for every test: one thread, no network, no display, and no GPU test without a GPU."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable
from types import ModuleType

import pytest

FIXED_ENVIRONMENT = {
    "COLUMNS": "120",  # width of tables
    "HF_HUB_OFFLINE": "1",
    "MPLBACKEND": "agg",
    "NO_COLOR": "1",
    "OMP_NUM_THREADS": "1",  # the number of threads changes float sums; torch reads it when it is imported
    "TZ": "UTC",
}
os.environ.update(FIXED_ENVIRONMENT)  # here, before any test imports torch; processes that tests start inherit it


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    on_gpu = [item for item in items if item.get_closest_marker("gpu")]
    if on_gpu and not _has_cuda():
        for item in on_gpu:
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device; torch sees none"))


def _has_cuda() -> bool:
    import torch

    return torch.cuda.is_available()


@pytest.fixture
def mamba_ssm_oracle(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """Import a module of mamba-ssm anywhere: its package imports a CUDA extension that the references do not use."""
    found = importlib.util.find_spec("mamba_ssm")
    if found is None or not found.submodule_search_locations:
        pytest.skip("mamba-ssm is not installed: `tox` installs its Python part")
    pytest.importorskip("einops", reason="mamba-ssm needs einops")
    package = ModuleType("mamba_ssm")
    package.__path__ = list(found.submodule_search_locations)
    for name in [name for name in sys.modules if name.split(".")[0] == "mamba_ssm"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mamba_ssm", package)
    monkeypatch.setitem(sys.modules, "selective_scan_cuda", ModuleType("selective_scan_cuda"))
    return lambda name: importlib.import_module(f"mamba_ssm.{name}")
