from __future__ import annotations

import time
from types import SimpleNamespace

import pytest
import torch

from tread_bench.core.stored.records import STEP_PARTS
from tread_bench.measure.speed.parts import part_of, step_parts

CPU = torch.device("cpu")


def called(*names):
    """The last of these, each called by the one before."""
    event = None
    for name in names:
        event = SimpleNamespace(name=name, cpu_parent=event)
    return event


@pytest.mark.parametrize(
    ("names", "part"),
    [
        (("aten::linear", "aten::addmm"), "products"),
        (("_AdalnBlock", "aten::bmm"), "attention"),
        (("aten::scaled_dot_product_attention", "aten::bmm"), "attention"),
        (("Optimizer.step#AdamW.step", "aten::mm"), "optimiser"),
        (("aten::_foreach_lerp_", "aten::lerp_"), "optimiser"),
        (("tread_bench::selective_scan", "aten::index_select"), "scans"),
        (("aten::gather",), "moved tokens"),
        (("autograd::engine::evaluate_function: MmBackward0",), "host"),
        (("autograd::engine::evaluate_function: MmBackward0", "MmBackward0", "aten::mm"), "products"),
        (("_AdalnBlockBackward",), "other operators"),
        (("aten::layer_norm",), "other operators"),
    ],
)
def test_an_operator_belongs_to_one_part_by_name_and_caller(names, part):
    assert part_of(called(*names)) == part


@pytest.mark.plain_bits
def test_the_part_that_takes_the_time_has_it_and_inputs_are_prepared_before_the_profile():
    """Parts are shares of the whole step."""
    matrix = torch.randn(400, 400)

    def ready():
        time.sleep(0.05)
        return lambda: matrix @ matrix

    parts = step_parts(ready, CPU)
    assert tuple(parts) == STEP_PARTS and sum(parts.values()) == pytest.approx(1)
    assert parts["products"] > 0.5 and min(parts.values()) >= 0
    assert step_parts(lambda: lambda: time.sleep(0.01), CPU)["host"] > 0.9
