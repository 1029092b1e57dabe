"""Parameters and MACs that methods, schedules and auxiliary losses add, against sums by hand."""

from __future__ import annotations

import pytest

from tests.model.methods.subjects import BACKBONES, METHODS, cell_of, network_of
from tests.pairs import in_turn
from tread_bench.core.config.routed import setting_of
from tread_bench.core.config.training import RoutingSchedule
from tread_bench.core.describe.methods import methods
from tread_bench.core.numbers.costs import (
    VALIDATION_TIMES,
    cell_cost,
    cost_of,
    expected_work,
    sampling_macs,
    training_macs,
)
from tread_bench.core.numbers.schedule import routing_share
from tread_bench.diffusion.objectives.base import build_objective
from tread_bench.measure import macs
from tread_bench.measure.macs import count_added, count_evaluated
from tread_bench.model.methods.mask.family import MaskOptions

WIDTH, TOKENS = 16, 16


def has_modules(method):
    return methods.find(method).has_modules


def backbone_cost(cell):
    family, spec = cell.backbone.family(), cell.backbone.spec(cell.data)
    return cost_of(family, spec, cell.routes), cost_of(family, spec)


@pytest.mark.parametrize(("method", "backbone"), in_turn(METHODS, BACKBONES))
def test_parameters_are_those_of_the_network(method, backbone):
    cell = cell_of(method, backbone)
    network, cost = network_of(cell), cell_cost(cell)
    assert cost.method_params == sum(p.numel() for p in network.method.parameters())
    assert cost.params == sum(p.numel() for p in network.parameters())
    assert cost.trainable_params == sum(p.numel() for p in network.parameters() if p.requires_grad)


@pytest.mark.parametrize("share", [1.0, 0.5])
@pytest.mark.parametrize(("method", "backbone"), in_turn(list(filter(has_modules, METHODS)), BACKBONES))
def test_blocks_whose_cost_is_known_from_their_tokens_cost_what_they_compute(method, backbone, share, monkeypatch):
    cell = cell_of(method, backbone)
    known = count_added(cell, share), count_evaluated(cell)
    monkeypatch.setattr(macs, "counts_of", lambda family, spec: None)
    assert known == (count_added(cell, share), count_evaluated(cell))
    assert known[0].train_step == 3 * known[0].forward.total  # of every pass, both of MDT's


def test_mixture_of_depths_costs_a_router_per_block_and_samples_routed():
    cell = cell_of("mod")
    cost, (routed, _) = cell_cost(cell), backbone_cost(cell)
    routers = 3 * TOKENS * WIDTH
    assert cost.method_params == 3 * WIDTH
    assert cost.forward_macs == cost.evaluated_forward_macs == routed.forward.total + routers
    assert cost.train_step_macs == routed.train_step + 3 * routers


@pytest.mark.parametrize(
    ("backbone", "share", "released"), [("DiT-B/2", 0.794, 175_581_968), ("DiT-XL/2", 0.552, 730_115_216)]
)
def test_maskdit_is_by_default_the_published_model(backbone, share, released):
    """Forward MACs over dense ones; parameters are counted of the authors' code, which has no row for "no label"."""
    data = {"name": "random_latents"}
    cell = cell_of("mask", backbone, data=data, metrics={"generate": False})
    cell = cell.model_copy(update={"method": MaskOptions(name="mask")})
    cost = cell_cost(cell)
    assert cost.forward_macs / cost.dense_forward_macs == pytest.approx(share, abs=5e-4)
    assert cost.trainable_params == released + cell.backbone.spec(cell.data).hidden


def test_layer_skip_costs_on_average_what_passes():
    cell = cell_of("layer_skip", routes="1:3@0.25")
    cost, (_, dense) = cell_cost(cell), backbone_cost(cell)
    blocks = [block.total * (0.75 if 1 <= n <= 3 else 1) for n, block in enumerate(dense.blocks)]
    assert cost.forward_macs == dense.outside.total + sum(blocks)
    assert cost.evaluated_forward_macs == dense.forward.total


def test_repa_costs_its_projection_over_present_tokens_and_the_target_network():
    repa = {"name": "repa", "projector": 8, "block": 2}
    plain, aligned = (cell_cost(cell_of("tread", auxiliary=a)) for a in ([], [repa]))
    weights = WIDTH * 8 + 8 * 8 + 8 * 64
    convolutions = 64 * 9 * 16 + 16 * 9 * 16 * 32 + 16 * 9 * 32 * 64  # on 8 x 8, then 4 x 4 pixels
    assert aligned.auxiliary_params == weights + 8 + 8 + 64
    assert aligned.train_step_macs - plain.train_step_macs == 3 * 8 * weights + convolutions
    assert (aligned.params, aligned.forward_macs) == (plain.params, plain.forward_macs)


@pytest.mark.parametrize("method", ["tread", "mask", "layer_skip"])
def test_the_mean_step_is_the_mean_over_all_steps(method):
    iterations, schedule = 5, {"warmup": 0.4, "until": 0.8}
    cell = cell_of(method, schedule=schedule, training={"iterations": iterations})
    steps = []
    for step in range(iterations):
        share = routing_share(step, iterations, cell.schedule)
        routes = tuple(route.at_share(share) for route in cell.routes)
        at_step = cell.model_copy(update={"routes": routes, "schedule": RoutingSchedule()})
        steps.append(cell_cost(at_step).train_step_macs)
    cost = cell_cost(cell)
    for until in range(1, iterations + 1):
        assert training_macs(cell, until) == pytest.approx(cell.training.batch * sum(steps[:until]), rel=1e-4)
    assert cost.mean_train_step_macs == pytest.approx(sum(steps) / iterations, rel=1e-4)
    assert cost.mean_train_step_macs > cost.train_step_macs == cell_cost(cell_of(method)).train_step_macs


@pytest.mark.parametrize("metrics", [{}, {"at": [4, 12]}, {"generate": False}])
@pytest.mark.parametrize("sampler", ["euler", "heun"])
@pytest.mark.parametrize("method", ["dense", "tread", "layer_skip"])
def test_expected_work_is_what_is_recorded_of_a_cell_without_modules_and_guidance(method, sampler, metrics):
    cell = cell_of(method, metrics={"num_samples": 100, **metrics}, sampling={"sampler": sampler, "steps": 3})
    cost, objective, work = cell_cost(cell), build_objective(cell.objective), expected_work(cell)
    generated = 100 * sampling_macs(setting_of(cell), objective.sampling_times(3)) if cell.metrics.generate else 0
    validated = cell.metrics.validation_samples * len(objective.validation_times) * cost.evaluated_forward_macs
    at = len(cell.metrics.iterations(12))
    assert work == (12 * 6 * cost.mean_train_step_macs, at * (generated + validated))


@pytest.mark.parametrize("objective", ["flow", "edm"])
def test_a_validation_costs_a_call_for_each_noise_level_of_the_objective(objective):
    cell = cell_of("tread", objective={"name": objective})
    assert len(build_objective(cell.objective).validation_times) == VALIDATION_TIMES
