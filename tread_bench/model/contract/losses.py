"""The contract of auxiliary losses, as checks for their authors to run.

    from tread_bench.contract import check_loss

    def test_the_contract_holds():
        assert check_loss(LOSS, {"weight": 0.5}) == []

A loss is tried in a flow matching training step of a small network. Weights are moved away from their initial
values first, so that a layer that starts at zero hides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from tread_bench.core.config.routed import setting_of
from tread_bench.core.describe.losses import LossFamily, LossOptions, find_loss
from tread_bench.core.describe.methods import find_method
from tread_bench.core.describe.plugins import by_name, named, problems_found
from tread_bench.core.describe.routes import RoutesLike
from tread_bench.core.describe.violations import Violation
from tread_bench.core.names import few
from tread_bench.core.numbers.cell_costs import cell_cost
from tread_bench.model.backbone import TokenState, draw_weights
from tread_bench.model.contract.cells import BATCH, SMALL, CellSubject, check_built, close
from tread_bench.model.contract.checks import SHOWN
from tread_bench.model.contract.subject import move_weights
from tread_bench.model.losses.auxiliary import Auxiliary, Images
from tread_bench.model.methods.base import init_linear
from tread_bench.model.network import Network
from tread_bench.model.prediction import Prediction

Step = tuple[Prediction, Images]  # inputs of a loss


class LossSubject(CellSubject):
    """A loss with a method on a small backbone for digits, and a batch to try it on.

    Args:
        options: options of the loss.
        method: name and options of the method.

    Raises:
        ValueError: the options are not valid, or the loss's own rules refuse the cell.
    """

    def __init__(
        self,
        family: LossFamily,
        options: Mapping[str, Any],
        method: Mapping[str, Any],
        routes: RoutesLike,
        backbone: Mapping[str, Any],
    ) -> None:
        # A cell with the loss.
        super().__init__(find_method(method["name"]), method, routes, backbone)
        self.family = family
        self.options: LossOptions = family.options.model_validate({"name": family.name, **options})
        self.cell = self.cell.model_copy(update={"auxiliary": (self.options,)})
        if problems := problems_found(family, setting_of(self.cell), self.options):
            raise ValueError("; ".join(problem.message for problem in problems))

        # Its network and the loss, and a noised batch.
        self.backbone, self.network_method = self.build(self.cell)
        self.loss = self.fresh()
        for module in (self.backbone, self.network_method, self.loss):
            move_weights(module, self.generator)
        self.x = self.x.clamp(-1, 1)
        noise = torch.randn(self.x.shape, generator=self.generator).clamp(-1, 1)
        self.noised = torch.lerp(self.x, noise, self.t.view(-1, 1, 1, 1))

    def fresh(self, options: LossOptions | None = None) -> Auxiliary:
        """Return the loss with its initial weights."""
        loss: Auxiliary = named(self.family.builder)(options or self.options, self.cell, self.backbone)
        draw_weights(loss, 0, lambda name, module: init_linear(module), f"auxiliary.{self.family.name}.")
        return loss

    def weighing(self, weight: float) -> Auxiliary:
        """Return the same loss with another weight."""
        loss = self.fresh(self.options.model_copy(update={"weight": weight}))
        loss.load_state_dict(self.loss.state_dict())
        return loss

    def step(self, loss: Auxiliary | None = None, first: int = 0, count: int = BATCH) -> Step:
        """Return the loss's inputs from a routed training step for some samples of the batch."""
        part = slice(first, first + count)
        network = Network(self.backbone, self.network_method, [loss or self.loss]).eval()
        prediction = self.train_forward(network, self.noised, first, count)
        noised, t = self.noised[part], self.t[part].view(-1, 1, 1, 1)
        return prediction, Images(self.x[part], noised, noised - t * prediction.output)

    def value(self, loss: Auxiliary | None = None, first: int = 0, count: int = BATCH) -> Tensor:
        """Return the loss of some samples of the batch."""
        return (loss or self.loss)(*self.step(loss, first, count))

    def parameters(self) -> list[Tensor]:
        """Return the network's parameters, without the loss's own."""
        own = (*self.backbone.parameters(), *self.network_method.parameters())
        return [parameter for parameter in own if parameter.requires_grad]


def check_value(subject: LossSubject) -> Iterator[str]:
    """It can be built, and is a finite number, with routes and without; otherwise no other check is run."""
    prediction, images = subject.step()
    for when, seen in (("", prediction), (" where no route is under way", replace(prediction, kept={}))):
        value = subject.loss(seen, images)
        if not isinstance(value, Tensor) or value.shape != () or not value.isfinite():
            shown = tuple(value.shape) if isinstance(value, Tensor) and value.shape else value
            yield f"expected a finite scalar{when}; saw {shown}"


def check_weight(subject: LossSubject) -> Iterator[str]:
    """With weight 0 a step equals one without the loss, bit for bit; twice the weight gives twice the loss."""
    # A loss of the network alone, and its gradients.
    prediction, images = subject.step()
    alone = prediction.output.square().mean()
    gradients = torch.autograd.grad(alone, subject.parameters(), retain_graph=True, allow_unused=True)

    # The same with the loss at weight 0.
    added = alone + subject.weighing(0.0)(prediction, images)
    after = torch.autograd.grad(added, subject.parameters(), retain_graph=True, allow_unused=True)
    is_same = [_is_same(one, other) for one, other in zip(gradients, after, strict=True)]
    if not torch.equal(added, alone) or not all(is_same):
        yield "with weight 0 the loss or a gradient of the network differs from that without it"

    # Twice the weight.
    value, twice = subject.loss(prediction, images), subject.weighing(2 * subject.options.weight)(prediction, images)
    if not close(twice, 2 * value):
        yield f"expected twice the loss with twice the weight, {float(2 * value):g}; saw {float(twice):g}"


def check_gradients(subject: LossSubject) -> Iterator[str]:
    """It trains the network and all parameters of its own."""
    own = {name: parameter for name, parameter in subject.loss.named_parameters() if parameter.requires_grad}
    wanted = [*own.values(), *subject.parameters()]
    gradients = torch.autograd.grad(subject.value(), wanted, allow_unused=True)
    wrong = [name for name, one in zip(own, gradients, strict=False) if one is None or not one.isfinite().all()]
    if wrong:
        yield f"expected a finite gradient of {few(wrong, SHOWN)}; saw none, NaN or infinity"
    reached = [gradient for gradient in gradients[len(own) :] if gradient is not None and gradient.any()]
    if not reached:
        yield "no gradient reaches the network: the loss trains nothing of it"
    elif not all(gradient.isfinite().all() for gradient in reached):
        yield "a gradient of the network is NaN or infinite"


@torch.no_grad()
def check_tokens(subject: LossSubject) -> Iterator[str]:
    """It reads tokens after a block, and needs absent tokens, exactly if its description says so."""
    prediction, images = subject.step()
    value, block = subject.loss(prediction, images), subject.loss.block

    # Tokens after a block.
    if (block is not None) != subject.family.reads_tokens:
        yield f"reads_tokens is {subject.family.reads_tokens}, and its block is {block}"
    elif block is not None and not 0 <= block < subject.backbone.num_blocks:
        yield f"its block is {block}, and the network has {subject.backbone.num_blocks} blocks"
    elif block is not None:
        moved = {number: _with_streams(state, lambda x: x.flip(1)) for number, state in prediction.states.items()}
        if torch.equal(subject.loss(replace(prediction, states=moved), images), value):
            yield "reads_tokens is True, and other tokens after its block do not change it"

    # Tokens that were absent.
    without = subject.loss(replace(prediction, kept={}), images)
    if subject.family.needs_absent_tokens and without != 0:
        yield f"needs_absent_tokens is True, and where none is absent it is {float(without):g}, not 0"
    if not subject.family.needs_absent_tokens and not torch.equal(without, value):
        yield "needs_absent_tokens is False, and the kept ids change it"


@torch.no_grad()
def check_batch(subject: LossSubject) -> Iterator[str]:
    """It is a mean over samples: micro-batches give the same result, and so does a repetition."""
    whole = subject.value()
    torch.manual_seed(1)
    if not torch.equal(subject.value(), whole):
        yield "the same step twice gives two values: it keeps a state, or draws from torch's generator"
    parts = [subject.value(first=first, count=2) for first in range(0, BATCH, 2)]
    if not close(torch.stack(parts).mean(), whole):
        yield f"the batch in parts gives {float(torch.stack(parts).mean()):g}, and as a whole {float(whole):g}"


@torch.no_grad()
def check_state(subject: LossSubject) -> Iterator[str]:
    """Everything that it depends on is in the state dict, which checkpoints store."""
    again = subject.fresh()
    again.load_state_dict(subject.loss.state_dict())
    if not torch.equal(subject.value(again), subject.value()):
        yield "a loss with the same state dict has another value: something is missing in it"


def check_cost(subject: LossSubject) -> Iterator[str]:
    """The parameters and multiply-adds stated in a record equal the counted ones."""
    # Costs stated in a record, with the loss and without.
    stated, plain = cell_cost(subject.cell), cell_cost(subject.cell.model_copy(update={"auxiliary": ()}))
    stated_macs = stated.train_step_macs - plain.train_step_macs

    # Counted costs of one image, including the gradients of what the loss reads.
    prediction, images = subject.step(count=1)
    states = {number: _with_streams(state, _as_leaf) for number, state in prediction.states.items()}
    seen = replace(prediction, output=_as_leaf(prediction.output), states=states)
    of_loss = replace(images, denoised=_as_leaf(images.denoised))
    macs = named("tread_bench.measure.macs:count_training")(lambda: subject.loss(seen, of_loss))
    params = sum(parameter.numel() for parameter in subject.loss.parameters())
    if (stated.auxiliary_params, stated_macs) != (params, macs):
        yield (
            f"a record states {stated.auxiliary_params} parameters and {stated_macs} MACs of a training step; "
            f"counted {params} and {macs}"
        )


def _is_same(gradient: Tensor | None, other: Tensor | None) -> bool:
    """Whether two gradients agree; a missing gradient counts as zeros."""
    if gradient is None or other is None:
        return not any(one is not None and one.any() for one in (gradient, other))
    return torch.equal(gradient, other)


def _with_streams(state: TokenState, change: Callable[[Tensor], Tensor]) -> TokenState:
    return state.with_streams(**{name: change(stream) for name, stream in state.streams.items()})


def _as_leaf(tensor: Tensor) -> Tensor:
    return tensor.detach().requires_grad_()


LOSS_CHECKS: tuple[Callable[[LossSubject], Iterator[str]], ...] = (
    check_value,
    check_weight,
    check_gradients,
    check_tokens,
    check_batch,
    check_state,
    check_cost,
)


def check_loss(
    family: LossFamily | str,
    options: Mapping[str, Any] | None = None,
    *,
    method: Mapping[str, Any] | None = None,
    routes: RoutesLike = "1:3@0.5",
    backbone: Mapping[str, Any] | None = None,
) -> list[Violation]:
    """Return the violations of the contract by an auxiliary loss, in the order of
    `LOSS_CHECKS`; empty if there are none.

    Args:
        family: what is announced in the group `tread_bench.losses`, or its name; it must be installed.
        options: as a suite writes them.
        method: name and options of the method to try it with; the default is TREAD.
        routes: routes of the cell; left out for a method that takes none.
        backbone: name and sizes of the network; the default is a DiT of 5 blocks and width 16.

    Raises:
        ValueError: the options are not valid, or the loss's own rules refuse the cell.
    """
    family = by_name(family, find_loss)
    build = partial(LossSubject, family, options or {}, method or {"name": "tread"}, routes, backbone or SMALL)
    return check_built(LOSS_CHECKS, build, f"builder {family.builder!r}")
