"""What this code is compared with computes the same."""

from __future__ import annotations

import ast

import pytest
import torch

from benchmarks.peers import fid
from benchmarks.peers.wkv import two_scans
from benchmarks.processes import CHECKOUT
from benchmarks.rows.training import dit_s2, embedded, plain_steps, plain_training, same_losses, steps_of, trainer_of
from tests.model.ops.wkv_reference import bi_wkv_reference


def loss_and_gradients(training):
    """Ours and the plain network's, by parameter."""
    trainer = trainer_of(training.dense, training.compute)
    plain, batch = plain_training(trainer), trainer.batch(0)
    ours, theirs = trainer.loss(batch), plain.loss(batch.x, batch.y, batch.t, batch.noise)
    ours.backward()
    theirs.backward()
    gradients = {name: p.grad for name, p in plain.model.named_parameters() if p.requires_grad}
    return (ours, theirs), [(p.grad, gradients.pop(name)) for name, p in trainer_parameters(trainer)], gradients


def trainer_parameters(trainer):
    return ((name, p) for name, p in trainer.network.backbone.named_parameters() if p.requires_grad)


@pytest.mark.parametrize("training", [embedded, pytest.param(dit_s2, marks=pytest.mark.endurance)])
def test_the_plain_dit_has_our_loss_and_our_gradients(training):
    losses, pairs, rest = loss_and_gradients(training())
    torch.testing.assert_close(*losses, rtol=1e-5, atol=0)
    assert rest == {}, "parameters that ours does not have"
    for ours, theirs in pairs:
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-4 * float(theirs.abs().max()))


def test_the_plain_loop_trains_as_ours_does():
    training = embedded()
    trainer = trainer_of(training.dense, training.compute)
    plain = plain_training(trainer)
    same_losses(steps_of(trainer, training.compute), plain_steps(plain, trainer), 1e-5)
    averages = dict(plain.ema.named_parameters())
    for name, ours in trainer.average.backbone.named_parameters():
        torch.testing.assert_close(ours, averages[name].data, rtol=0, atol=1e-5)


def test_two_scans_are_the_sum_over_all_pairs():
    draw = lambda *shape: torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape))).double()  # noqa: E731
    inputs = [x.requires_grad_() for x in (draw(5).abs(), draw(5) + 1, 3 * draw(2, 9, 5), draw(2, 9, 5) - 1)]
    grad = draw(9, 2, 5).transpose(0, 1)
    found = [[y, *torch.autograd.grad(y, inputs, grad)] for y in (two_scans(*inputs), bi_wkv_reference(*inputs))]
    for ours, exact in zip(*found, strict=True):
        torch.testing.assert_close(ours, exact, rtol=1e-10, atol=1e-10)


def test_both_sides_find_the_same_distance():
    ours, theirs = (side(600, 32, fid.Watch()) for side in (fid.ours, fid.theirs))
    assert ours == pytest.approx(theirs, rel=1e-5)


def test_the_plain_network_and_the_plain_loops_import_nothing_of_this_project():
    for name in ("dit", "wkv"):
        tree = ast.parse((CHECKOUT / "benchmarks" / "peers" / f"{name}.py").read_text())
        imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
        assert imports and not [node for node in imports if "tread_bench" in ast.unparse(node)]
