"""What holds for every test: one thread, no network, no display, and no GPU test without a GPU."""

from __future__ import annotations

import os

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
