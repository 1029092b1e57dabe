from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from tread_bench.core.stored.records import STEP_PARTS
from tread_bench.measure.speed.parts import part_of, step_parts

CPU = torch.device("cpu")


def called(*names: str) -> SimpleNamespace:
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
def test_an_operator_belongs_to_one_part_by_name_and_caller(names: tuple[str, ...], part: str) -> None:
    assert part_of(called(*names)) == part


def parts_of(work: Callable[[], object]) -> dict[str, float]:
    return step_parts(lambda: work, CPU)


def test_parts_are_shares_of_the_whole_step() -> None:
    x = torch.randn(64, 64, requires_grad=True)
    parts = parts_of(lambda: (x @ x).softmax(-1).sum().backward())
    assert tuple(parts) == STEP_PARTS
    assert sum(parts.values()) == pytest.approx(1)
    assert min(parts.values()) >= 0


@pytest.mark.plain_bits
def test_the_part_that_takes_the_time_has_it() -> None:
    matrix = torch.randn(400, 400)
    x_BHND = torch.randn(4, 4, 256, 32)
    weights = [torch.zeros(10**6, requires_grad=True)]
    optimizer = torch.optim.AdamW(weights)
    weights[0].grad = torch.ones(10**6)
    ids = torch.randint(0, 256, (4, 4, 256, 1)).expand(-1, -1, -1, 32)

    assert parts_of(lambda: matrix @ matrix)["products"] > 0.5
    assert parts_of(lambda: scaled_dot_product_attention(x_BHND, x_BHND, x_BHND))["attention"] > 0.5
    assert parts_of(optimizer.step)["optimiser"] > 0.5
    assert parts_of(lambda: [x_BHND.gather(2, ids) for _ in range(20)])["moved tokens"] > 0.5
    assert parts_of(lambda: time.sleep(0.01))["host"] > 0.9


def test_inputs_are_prepared_before_the_profile() -> None:
    def ready() -> Callable[[], object]:
        time.sleep(0.05)
        return lambda: torch.ones(500, 500) @ torch.ones(500, 500)

    assert step_parts(ready, CPU)["host"] < 0.5
