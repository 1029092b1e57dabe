"""Every row measures something, at sizes at which that takes seconds: an interface that has changed is seen."""

from __future__ import annotations

import pytest
import torch

from benchmarks.row import ROWS, SkippedError
from benchmarks.rows import evaluation, harness, loading, mixers, training
from benchmarks.timing import Bench
from benchmarks.yardstick import PRECISIONS, Product
from tread_bench.core.config.compute import Compute
from tread_bench.core.config.suite import Cell

CACHED = (
    mixers.scan_inputs,
    mixers.mamba_ssm_passes,
    mixers.mamba_ssm_results,
    mixers.wkv_inputs,
    mixers.recurrence_inputs,
    evaluation.runs,
)


def small_network(backbone):
    """Of the same family, with the same mixer or attention."""
    settings = {"name": backbone} if isinstance(backbone, str) else dict(backbone)
    family = settings.pop("name").rpartition("-")[0]
    heads = {"heads": 2} if family in ("DiT", "DiG", "U-ViT") else {}
    depth = 5 if family == "DRWKV" else 4
    cell = {
        "backbone": {"name": family, "depth": depth, "hidden": 64, "patch": 8, **heads, **settings},
        "data": {"name": "random_latents", "count": 16},
        "training": {"iterations": 10, "batch": 2},
        "metrics": {"generate": False},
    }
    made = Cell.model_validate(cell)
    return training.Training(made, made, Compute())


SMALL = {
    mixers: {"BATCH": 1, "TOKENS": 16, "INNER": 32, "WIDTH": 64},
    training: {"dit_s2": training.embedded, "on_latents": small_network},
    loading: {"IMAGES": 8, "WIDTH": 20, "HEIGHT": 15, "SIDE": 8, "LATENTS": 16, "IMAGE_BATCH": 4, "LATENT_BATCH": 8},
    evaluation: {"FEATURES": 600, "WIDTH": 32},
    harness: {"SEEDS": 1, "LOOP_STEPS": 20, "MANY_SEEDS": 3},
}


MINUTES = (
    "fid/time",
    "harness/cell",
    "harness/report",
    "harness/status",
    "host/step-compiled-dense",
    "host/step-compiled-routed",
    *(f"s2-step/{name}" for name in training.OF_SIZE_S2 if name not in ("dis", "dig-rwkv7")),  # variants of these
)


@pytest.fixture
def small(monkeypatch):
    for module, sizes in SMALL.items():
        for name, size in sizes.items():
            monkeypatch.setattr(module, name, size)
    for cached in CACHED:
        cached.cache_clear()
    precision = torch.get_float32_matmul_precision()
    yield
    torch.set_float32_matmul_precision(precision)
    for cached in CACHED:
        cached.cache_clear()


def of(name):
    return pytest.param(name, marks=pytest.mark.endurance if name in MINUTES else pytest.mark.full)


# Without fid/memory: at this size it is less than what the imports needed.
@pytest.mark.parametrize("name", [of(name) for name in sorted(ROWS.keys() - {"fid/memory"})])
def test_a_row_measures_and_both_sides_agree(name, small):
    products = {precision: Product(precision, (64, 64, 64), 1.0) for precision in PRECISIONS}
    try:
        figure = ROWS[name].measure(Bench(products=products, seconds=0))
    except SkippedError as reason:
        pytest.skip(str(reason))
    assert figure.low <= figure.value <= figure.high
    assert all(len(samples) >= 2 for samples in figure.samples.values()) and figure.samples
    if not ROWS[name].is_cost and not name.startswith(("harness/", "s2-step/")):  # these compute different things
        assert figure.agreement is not None and figure.agreement.error <= figure.agreement.tolerance
        assert figure.value > 0
