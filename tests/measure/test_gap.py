from __future__ import annotations

import pytest

from tests.model.methods.subjects import answering, network_of
from tread_bench.core.config.routed import setting_of, with_blocks
from tread_bench.core.config.suite import Cell
from tread_bench.diffusion.objectives.base import build_objective
from tread_bench.measure.inside.validation import routed_gap, validation_losses

RATES = (0, 0.25, 0.5, 0.75)


def made(objective="flow", **backbone):
    """A cell and its network with weights that answer to everything."""
    metrics = {"validation_samples": 12, "similarity_samples": 6, "routed_rates": RATES, "routed_blocks": "1:2"}
    sizes = {"name": "DiT", "depth": 4, "hidden": 32, "heads": 2, "patch": 2, **backbone}
    asked = {"backbone": sizes, "objective": objective, "training": {"iterations": 8}, "metrics": metrics}
    cell = with_blocks(setting_of(Cell.model_validate(asked)))
    return cell, answering(network_of(cell))


@pytest.mark.parametrize(("objective", "backbone"), [("flow", "DiT"), ("edm", "U-ViT")])  # with a prefix
def test_at_rate_zero_the_network_is_dense(digits, objective, backbone):
    cell, network = made(objective, name=backbone)
    objective = build_objective(cell.objective)
    gap = routed_gap(network, objective, digits.held_out, cell.metrics)
    dense = validation_losses(network, objective, digits.held_out, 12, 256)
    at_zero = gap.rates[0]
    assert at_zero.validation_loss_per_time == pytest.approx(dense)
    assert at_zero.validation_loss == pytest.approx(sum(dense.values()) / 8)
    assert gap.blocks == "1:2" and [at.rate for at in gap.rates] == list(RATES)
    assert gap.rates[-1].validation_loss != at_zero.validation_loss


def test_figures_do_not_depend_on_the_batch(digits):
    cell, network = made()
    objective = build_objective(cell.objective)
    whole = routed_gap(network, objective, digits.held_out, cell.metrics)
    parts = routed_gap(network, objective, digits.held_out, cell.metrics.model_copy(update={"batch": 5}))
    for a, b in zip(whole.rates, parts.rates, strict=True):
        assert a.validation_loss == pytest.approx(b.validation_loss, rel=1e-5)
