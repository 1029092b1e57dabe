"""Laws of every method on every family."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from tests.model.methods.subjects import BACKBONES, METHODS, batch_range, cell_of, inputs, network_of, trainer_of, watch
from tests.pairs import in_turn
from tread_bench.cell import run as cell
from tread_bench.core.describe.methods import methods
from tread_bench.core.numbers import draws
from tread_bench.measure.inside.blocks import block_parameters
from tread_bench.model.backbone import Skip, come_back, leave
from tread_bench.model.losses.mae.network import Mae
from tread_bench.model.methods.base import Images

every = pytest.mark.parametrize(("method", "backbone"), in_turn(METHODS, BACKBONES))
WITH_MODULES = [name for name in METHODS if methods.find(name).has_modules]
with_modules = pytest.mark.parametrize("method", WITH_MODULES)


def predict(network, count=6, first=0, routing=1.0, batch=None):
    x, t, y = (part[first : first + count] for part in (batch or inputs()))
    return network.train_forward(x, t, y, batch_range(count, first, routing)).output


@every
def test_the_judged_output_knows_no_training_mode_and_every_block_once(method, backbone):
    network = network_of(cell_of(method, backbone), perturbed=True)
    seen = []
    with torch.no_grad():
        trained = network.train()(*inputs(), on_block=lambda block, state: seen.append((block, state.ids)))
        judged = network.eval()(*inputs())
    assert torch.equal(trained, judged)
    assert seen == [(block, None) for block in range(5)]


@pytest.mark.parametrize(
    ("method", "others"),
    {
        "mask": {"decoder_input.linear", "last_layer.linear"},
        "mdt": set(),
        "deferred_masking": set(),
        "elit": {"write.proj", "write.mlp.fc2"},
    }.items(),
)
def test_modulations_start_at_zero_and_of_other_layers_those_alone(method, others):
    weights = dict(network_of(cell_of(method)).method.named_parameters())
    layers = {name.removesuffix(".weight"): weight for name, weight in weights.items() if name.endswith(".weight")}
    modulations = {name for name in layers if name.endswith("modulation.linear")}
    assert {name for name, weight in layers.items() if not weight.any()} == modulations | others


@pytest.mark.parametrize("backbone", BACKBONES)
def test_without_routing_a_sample_of_sprint_is_as_judged_or_loses_its_deep_path(backbone):
    network, batch = network_of(cell_of("sprint", backbone), perturbed=True).eval(), inputs(64)
    with torch.no_grad():
        trained, whole = predict(network, 64, routing=0.0, batch=batch), network(*batch)
        shallow = network.method.shallow_forward(network.backbone, network.backbone.start(*batch))
        without_path_drop = dataclasses.replace(batch_range(64, routing=0.0), path_drop=False)
        assert torch.equal(network.train_forward(*batch, without_path_drop).output, whole)
    lost = torch.from_numpy(draws.uniform(0, "path drop", 0, 64) < 0.1)
    assert 0 < lost.sum() < 16
    torch.testing.assert_close(trained, torch.where(lost.view(-1, 1, 1, 1), shallow, whole), rtol=0, atol=1e-5)


@every
def test_the_backbone_starts_from_the_weights_that_it_has_alone(method, backbone):
    dense, other = (network_of(cell_of(name, backbone)).backbone.state_dict() for name in ("dense", method))
    assert all(torch.equal(dense[name], other[name]) for name in other)
    assert (dense.keys() == other.keys()) == (method != "mask"), "only MaskDiT has a last layer of its own"


@with_modules
def test_extra_weights_are_a_function_of_the_seed(method):
    first, same, other = (network_of(cell_of(method), seed).method.state_dict() for seed in (0, 0, 1))
    assert all(torch.equal(first[name], same[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)


def test_a_parameter_without_a_gradient_yet_survives_a_checkpoint():
    cell = cell_of("drop", schedule={"warmup": 0.9})
    trainer = trainer_of(cell)
    trainer.step(trainer.batch(0))
    again = trainer_of(cell)
    again.restore({name: tensor.clone() for name, tensor in trainer.tensors().items()})
    for number in range(1, 5):
        trainer.step(trainer.batch(number))
        again.step(again.batch(number))
    assert all(torch.equal(a, b) for a, b in zip(trainer.parameters, again.parameters, strict=True))


# TREAD


def tokens_with_gradient(detach):
    """Tokens before a route that a loss on all tokens behind it reaches, (B, N)."""
    network = network_of(cell_of("tread"), perturbed=True)
    state = network.backbone.start(*inputs())
    tokens = state.streams["x"].detach().requires_grad_()
    kept = network.method.draw(network.backbone, batch_range(), tokens.device)[0]
    state = come_back(leave(dataclasses.replace(state, streams={"x": tokens}), kept, detach))
    (gradient,) = torch.autograd.grad(state.streams["x"].square().sum(), tokens)
    return gradient.any(2), torch.zeros(6, 16, dtype=torch.bool).scatter(1, kept, True)


def test_detached_tokens_get_no_gradient_through_the_bypass():
    reached, kept = tokens_with_gradient(detach=True)
    assert torch.equal(reached, kept)
    assert tokens_with_gradient(detach=False)[0].all()


# Token dropping


def test_kept_tokens_come_back_as_they_left_and_a_mask_token_for_each_other():
    network, states = network_of(cell_of("drop", routes="1:3@0.5"), perturbed=True).eval(), {}
    backbone, method = network.backbone, network.method
    with torch.no_grad():
        start = backbone.start(*inputs())
        found = method.train_forward(backbone, start, batch_range(), lambda block, state: states.update({block: state}))
        (kept,) = found.kept.values()
        whole = method.mask_token.value.expand(6, 16, -1).clone()
        whole[torch.arange(6)[:, None], kept] = states[3].stream()
        last = backbone.run_block(4, dataclasses.replace(start, streams={"x": whole}))
        torch.testing.assert_close(found.output, backbone.finish(last))


# MaskDiT


def test_the_mask_loss_is_the_mean_over_kept_pixels_and_mae_on_the_others():
    cell = cell_of("mask")
    trainer = trainer_of(cell, perturbed=True)
    batch = trainer.batch(0)
    with torch.no_grad():
        loss = trainer.loss(batch)
        x_t = torch.lerp(batch.x, batch.noise, batch.t.view(-1, 1, 1, 1))
        prediction = trainer.network.train_forward(x_t, batch.t, batch.y, batch.range)
    velocity, is_kept = prediction.output, torch.zeros(6, 16, dtype=torch.bool).scatter(1, prediction.kept[0], True)
    pixels = is_kept.view(6, 1, 4, 4).repeat_interleave(2, 2).repeat_interleave(2, 3)
    error = (velocity - (batch.noise - batch.x)).square()
    images = Images(batch.x, x_t, x_t - batch.t.view(-1, 1, 1, 1) * velocity)
    torch.testing.assert_close(loss, error[pixels].mean() + Mae(0.1, [1.0], 2)(prediction, images))


# MDT


def test_the_loss_of_mdt_is_the_sum_of_those_of_both_passes():
    trainer = trainer_of(cell_of("mdt"), perturbed=True)
    batch = trainer.batch(0)
    with torch.no_grad():
        loss = trainer.loss(batch)
        x_t = trainer.objective.corrupt(batch.x, batch.noise, batch.t)
        prediction = trainer.network.train_forward(x_t, batch.t, batch.y, batch.range)
        velocity = batch.noise - batch.x
        expected = sum((one - velocity).square().mean() for one in (prediction.output, prediction.second))
        whole = trainer.network(x_t, batch.t, batch.y)
    torch.testing.assert_close(loss, expected)
    assert torch.equal(prediction.second, whole), "the pass over all tokens is what is evaluated"


# SPRINT


def test_the_shallow_path_does_not_run_the_deep_one():
    network = network_of(cell_of("sprint"), perturbed=True).eval()
    called = []
    watch(network.backbone, lambda block, before, after: called.append(block))
    with torch.no_grad():
        shallow = network.method.shallow_forward(network.backbone, network.backbone.start(*inputs()))
    assert called == [0, 4]
    assert shallow.shape == (6, 1, 8, 8)


def test_dense_gradients_per_block_are_measured_without_path_drop():
    trainers = [trainer_of(cell_of("sprint", options={"path_drop": share}), perturbed=True) for share in (0.0, 0.9)]
    none, most = map(cell._gradient_norms, trainers)
    assert none.dense == most.dense
    assert all(with_drop < without for with_drop, without in zip(most.training[1:4], none.training[1:4], strict=True))


# Mixture-of-Depths


@pytest.mark.parametrize("backbone", BACKBONES)
def test_routers_that_weigh_all_tokens_one_leave_the_backbone_as_it_is(backbone, monkeypatch):
    network = network_of(cell_of("mod", backbone, routes="1:3@0"), perturbed=True).eval()
    for router in network.method.routers.values():
        monkeypatch.setattr(router, "forward", lambda tokens: tokens.new_ones(*tokens.shape[:2], 1))
    with torch.no_grad():
        torch.testing.assert_close(network(*inputs()), network.backbone(*inputs()), rtol=0, atol=1e-5)


def test_the_tokens_of_largest_weight_pass_and_their_update_is_scaled_by_it():
    network = network_of(cell_of("mod", routes="1:1@0.75"), perturbed=True).eval()
    backbone, method = network.backbone, network.method
    with torch.no_grad():
        state = backbone.run_block(0, backbone.start(*inputs()))
        weights = state.stream() @ method.routers["1"].weight[0]
        after = method._pass(backbone, 1, state, method.routes[0]).stream()
        for sample, (before, weight) in enumerate(zip(state.stream(), weights, strict=True)):
            top = weight.argsort(descending=True)[:4].sort().values
            one = dataclasses.replace(state, streams={"x": before[top][None]}, c=state.c[sample][None])
            updated = backbone.run_block(1, one).stream()[0]
            expected = before.clone()
            expected[top] += weight[top, None] * (updated - before[top])
            torch.testing.assert_close(after[sample], expected, rtol=1e-4, atol=1e-5)


def test_a_long_skip_saved_under_a_router_holds_the_scaled_output():
    network = network_of(cell_of("mod", "U-ViT", routes="1:1@0.5"), perturbed=True).eval()
    backbone, method = network.backbone, network.method
    with torch.no_grad():
        state = method._pass(backbone, 1, backbone.run_block(0, backbone.start(*inputs())), method.routes[0])
        whole = dataclasses.replace(state, skips=(state.skips[-1],))
    assert isinstance(state.skips[-1], Skip)
    assert torch.equal(whole.pop_skip()[0], state.stream())


# Layer skip


def test_samples_skip_at_the_rate_and_are_then_predicted_without_the_blocks():
    network = network_of(cell_of("layer_skip", routes="1:3@0.25"), perturbed=True).eval()
    backbone = network.backbone
    ((_, many),) = network.method.with_masks(backbone, batch_range(4000)).drawn.items()
    assert many.float().mean() == pytest.approx(0.75, abs=0.03)
    ((_, passes),) = network.method.with_masks(backbone, batch_range()).drawn.items()
    passing = set(passes.nonzero().flatten().tolist())
    with torch.no_grad():
        state = backbone.run_block(4, backbone.run_block(0, backbone.start(*inputs())))
        short, dense, seen = backbone.finish(state), backbone(*inputs()), predict(network)
    for sample in range(6):
        torch.testing.assert_close(seen[sample], (dense if sample in passing else short)[sample])


def test_a_batch_whose_samples_all_skip_runs_no_block_of_the_route():
    network, called = network_of(cell_of("layer_skip", routes="1:3@0.999"), perturbed=True).eval(), []
    watch(network.backbone, lambda block, before, after: called.append(block))
    predict(network)
    assert called == [0, 4]


@every
def test_gradient_norms_find_the_parameters_of_every_block(method, backbone):
    """A method with a last layer of its own leaves the backbone without one."""
    network = network_of(cell_of(method, backbone))
    assert all(block_parameters(network.backbone, *inputs()))
