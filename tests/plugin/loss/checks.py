"""What must hold of every auxiliary loss: save this beside your own, and put its description in place of LOSS.

It is tried in a training step of a small DiT with TREAD. Weights are moved away from their initial values, so that a
layer that starts at zero hides nothing.
"""

from dataclasses import replace

import torch
from edge_loss.family import EDGES as LOSS

from tread_bench.core.config.routed import setting_of
from tread_bench.core.describe.methods import find_method
from tread_bench.core.describe.plugins import named
from tread_bench.core.numbers.cell_costs import cell_cost
from tread_bench.model.backbone import draw_weights
from tread_bench.model.contract.cells import BATCH, SMALL, CellSubject
from tread_bench.model.contract.subject import move_weights
from tread_bench.model.losses.auxiliary import Auxiliary, Images
from tread_bench.model.methods.base import init_linear
from tread_bench.model.network import Network

OPTIONS = {"weight": 0.5}
METHOD, ROUTES, BACKBONE = {"name": "tread"}, "1:3@0.5", SMALL


class Trial:
    """The loss in a cell with its network, and a noised batch."""

    def __init__(self):
        subject = CellSubject(find_method(METHOD["name"]), METHOD, ROUTES, BACKBONE)
        self.options = LOSS.options.model_validate({"name": LOSS.name, **OPTIONS})
        self.subject, self.cell = subject, subject.cell.model_copy(update={"auxiliary": (self.options,)})
        assert list(LOSS.check(setting_of(self.cell), self.options)) == []
        self.backbone, self.method = subject.build(self.cell)
        self.loss = self.fresh()
        for module in (self.backbone, self.method, self.loss):
            move_weights(module, subject.generator)
        self.x = subject.x.clamp(-1, 1)
        noise = torch.randn(self.x.shape, generator=subject.generator).clamp(-1, 1)
        self.noised = torch.lerp(self.x, noise, subject.t.view(-1, 1, 1, 1))

    def fresh(self, **changes):
        """The loss with its initial weights."""
        loss = named(LOSS.builder)(self.options.model_copy(update=changes), self.cell, self.backbone)
        draw_weights(loss, 0, lambda name, module: init_linear(module), f"auxiliary.{LOSS.name}.")
        return loss

    def like(self, **changes):
        """Another one with the same weights."""
        loss = self.fresh(**changes)
        loss.load_state_dict(self.loss.state_dict())
        return loss

    def step(self, first=0, count=BATCH):
        """What a routed training step gives the loss for some samples of the batch."""
        part = slice(first, first + count)
        network = Network(self.backbone, self.method, [self.loss]).eval()
        prediction = self.subject.train_forward(network, self.noised, first, count)
        noised, t = self.noised[part], self.subject.t[part].view(-1, 1, 1, 1)
        return prediction, Images(self.x[part], noised, noised - t * prediction.output)

    def weights(self):
        """Those of the network, without the loss's own."""
        both = (*self.backbone.parameters(), *self.method.parameters())
        return [weight for weight in both if weight.requires_grad]


def changed(state, change):
    return state.with_streams(**{name: change(stream) for name, stream in state.streams.items()})


def near(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_value():
    """It is a finite scalar, with absent tokens and without."""
    trial = Trial()
    prediction, images = trial.step()
    for seen in (prediction, replace(prediction, kept={})):
        value = trial.loss(seen, images)
        assert value.shape == () and value.isfinite()
    assert isinstance(trial.loss, Auxiliary)


def test_weight():
    """At weight 0 neither the loss nor a gradient is another than without it; twice the weight is twice the loss."""
    trial = Trial()
    prediction, images = trial.step()
    alone = prediction.output.square().mean()
    added = alone + trial.like(weight=0.0)(prediction, images)
    assert torch.equal(added, alone)
    gradients = [
        torch.autograd.grad(loss, trial.weights(), retain_graph=True, allow_unused=True, materialize_grads=True)
        for loss in (alone, added)
    ]
    assert all(torch.equal(before, after) for before, after in zip(*gradients, strict=True))
    twice = trial.like(weight=2 * trial.options.weight)(prediction, images)
    near(twice, 2 * trial.loss(prediction, images))


def test_gradients():
    """A finite gradient reaches the network, and every weight of the loss."""
    trial = Trial()
    trial.loss(*trial.step()).backward()
    own = [weight.grad for weight in trial.loss.parameters() if weight.requires_grad]
    assert all(gradient is not None and gradient.isfinite().all() for gradient in own)
    reached = [weight.grad for weight in trial.weights() if weight.grad is not None]
    assert all(gradient.isfinite().all() for gradient in reached) and any(gradient.any() for gradient in reached)


def test_tokens():
    """It reads tokens after `block` as `reads_tokens` says, and absent ones as `needs_absent_tokens` says."""
    trial = Trial()
    prediction, images = trial.step()
    value, block = trial.loss(prediction, images), trial.loss.block
    assert (block is not None) == LOSS.reads_tokens
    if block is not None:
        assert 0 <= block < trial.backbone.num_blocks
        flipped = {number: changed(state, lambda x: x.flip(1)) for number, state in prediction.states.items()}
        assert trial.loss(replace(prediction, states=flipped), images) != value
    without = trial.loss(replace(prediction, kept={}), images)
    assert without == (0 if LOSS.needs_absent_tokens else value)


def test_batch():
    """It is a mean over samples, and the same each time."""
    trial = Trial()
    whole = trial.loss(*trial.step())
    torch.manual_seed(1)
    assert torch.equal(trial.loss(*trial.step()), whole)
    parts = [trial.loss(*trial.step(first, 2)) for first in range(0, BATCH, 2)]
    near(torch.stack(parts).mean(), whole)


def test_state():
    """All that it depends on is in the state dict, which checkpoints store."""
    trial = Trial()
    assert torch.equal(trial.like()(*trial.step()), trial.loss(*trial.step()))


def test_cost():
    """It works on the meta device, where its parameters and multiply-adds are counted."""
    trial = Trial()
    counted = cell_cost(trial.cell).auxiliary_params
    assert counted == sum(weight.numel() for weight in trial.loss.parameters())
