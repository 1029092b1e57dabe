"""The contract of methods, as checks for their authors to run.

    from tread_bench.contract import check_method

    def test_the_contract_holds():
        assert check_method(METHOD, routes="1:3@0.5") == []

A small network is enough. Its weights are first moved away from their initial values, so that a layer that starts at
zero hides nothing. That its cells resume exactly follows from `draws` and `state`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from tread_bench.core.config.routed import setting_of
from tread_bench.core.describe.methods import Evaluated, MethodFamily, Tokens, find_method
from tread_bench.core.describe.routes import RoutesLike, resolve_routes, tokens_per_block
from tread_bench.core.describe.selectors import selectors
from tread_bench.core.describe.violations import Violation, run_checks
from tread_bench.core.errors import error_text
from tread_bench.core.names import few
from tread_bench.model.backbone import TokenState
from tread_bench.model.contract.cells import BATCH, SMALL, CellSubject, close
from tread_bench.model.contract.checks import SHOWN
from tread_bench.model.contract.places import MovedTokens
from tread_bench.model.contract.subject import accepts, move_weights
from tread_bench.model.methods.base import BatchRange
from tread_bench.model.network import Network
from tread_bench.model.prediction import Prediction

STEPS = 8  # training steps that are tried where they may differ


class MethodSubject(CellSubject):
    """A method on a small backbone for digits, with a batch to try it on.

    Raises:
        ValueError: a route does not fit the backbone, or the method's own rules refuse the cell.
    """

    def __init__(
        self, method: MethodFamily, options: Mapping[str, Any], routes: RoutesLike, backbone: Mapping[str, Any]
    ) -> None:
        super().__init__(method, options, routes, backbone)
        if problems := list(method.check(setting_of(self.cell))):
            raise ValueError("; ".join(problem.message for problem in problems))
        self.network = self.fresh()
        move_weights(self.network, self.generator)

    def fresh(self, **changes: Any) -> Network:
        """Return the network of the changed cell with its initial weights, in eval mode, since dropout would hide
        mistakes.
        """
        return Network(*self.build(self.cell.model_copy(update=changes))).eval()

    def step(self, network: Network, routing: float = 1.0, first: int = 0, count: int = BATCH) -> Prediction:
        """Return a training step's prediction for some samples of the batch."""
        return self.train_forward(network, self.x, first, count, routing)

    @property
    def routed_steps(self) -> list[tuple[float, int]]:
        """Share of the rates and first sample of some steps, since a method may draw what it does for each."""
        return [(1.0, step * self.cell.training.batch) for step in range(STEPS)]

    def at(self, network: Network, routing: float, first: int) -> Tensor:
        """Return what the training step that begins with sample `first` predicts for the batch."""
        batch_range = BatchRange(seed=0, first=first, count=BATCH, routing=routing, path_drop=False)
        return network.train_forward(self.x, self.t, self.y, batch_range).output

    def start(self) -> TokenState:
        """Return the state before the first block."""
        return self.network.backbone.start(self.x, self.t, self.y)

    def evaluated(self) -> Tensor:
        return self.network(self.x, self.t, self.y)


@torch.no_grad()
def check_step(subject: MethodSubject) -> Iterator[str]:
    """A routed training step returns a `Prediction` of x's shape; otherwise no other check is run."""
    network = subject.network
    prediction: Any = network.method.train_forward(network.backbone, subject.start(), BatchRange(0, 0, BATCH))
    if not isinstance(prediction, Prediction):
        yield f"train_forward: expected a tread_bench.Prediction; saw {type(prediction).__name__}"
    elif prediction.output.shape != subject.x.shape:
        shape = tuple(prediction.output.shape)
        yield f"train_forward: expected an output of shape {tuple(subject.x.shape)}; saw {shape}"


def check_modules(subject: MethodSubject) -> Iterator[str]:
    """It has its own parameters exactly if it says so, and each gets a finite gradient in a routed step."""
    own = dict(subject.network.method.named_parameters())
    if bool(own) != subject.method.has_modules:
        yield f"has_modules is {subject.method.has_modules}, and it has {len(own)} parameters of its own"
    if not own:
        return
    output = subject.step(subject.network).output
    weights = torch.linspace(-1, 1, output.numel()).view_as(output)
    gradients = torch.autograd.grad((output * weights).sum(), list(own.values()), allow_unused=True)
    wrong = [name for name, one in zip(own, gradients, strict=True) if one is None or not one.isfinite().all()]
    if wrong:
        yield f"expected a finite gradient of {few(wrong, SHOWN)}; saw none, NaN or infinity"


@torch.no_grad()
def check_evaluated(subject: MethodSubject) -> Iterator[str]:
    """It is evaluated as its description says, and a step without routing, or at full rates, predicts the same."""
    output = subject.evaluated()
    if output.shape != subject.x.shape or not output.isfinite().all():
        yield f"expected a finite prediction of shape {tuple(subject.x.shape)}; saw {tuple(output.shape)}"
        return
    if not torch.equal(output, subject.evaluated()):
        yield "the same evaluation twice gives two predictions: it depends on more than its inputs"
        return
    if subject.method.is_plain_backbone and not torch.equal(
        output, subject.network.backbone(subject.x, subject.t, subject.y)
    ):
        yield "without modules of its own and evaluated dense, expected the backbone's own dense prediction"
        return
    is_dense = subject.method.evaluated is Evaluated.DENSE
    step = subject.step(subject.network, routing=0.0 if is_dense else 1.0).output
    if not close(step, output):
        when = "without routing" if is_dense else "at full rates"
        yield f"evaluated {subject.method.evaluated}: expected a step {when} to predict what the evaluation predicts"
    routed = (subject.at(subject.network, *step) for step in subject.routed_steps)
    if is_dense and subject.method.takes_routes and all(torch.equal(step, output) for step in routed):
        yield "a routed step predicts what a dense one does: its routes have no effect"


@torch.no_grad()
def check_tokens(subject: MethodSubject) -> Iterator[str]:
    """Tokens are treated as its description says: how many see each block, and which are reported as kept."""
    seen: dict[int, int] = {}
    received: dict[int, TokenState] = {}

    def note(block: int, state: TokenState) -> None:
        seen[block] = state.stream().shape[1] - state.num_prefix

    def run_block(block: int, state: TokenState) -> TokenState:
        received[block] = state
        return type(backbone).run_block(backbone, block, state)

    # Run a routed step, recording each block.
    spec, routes = subject.spec, subject.cell.routes
    bypass, ends = subject.method.tokens is Tokens.BYPASS, {int(route.end) for route in routes}
    backbone = copy(subject.network.backbone)
    backbone.run_block = run_block  # type: ignore[method-assign]
    start = subject.start()
    prediction = subject.network.method.train_forward(backbone, start, BatchRange(0, 0, BATCH), note)

    # Kept tokens.
    absent = subject.method.predicts_absent_tokens
    expected = {number: (BATCH, route.kept(spec.num_tokens)) for number, route in enumerate(routes)} if absent else {}
    found = {number: tuple(ids.shape) for number, ids in prediction.kept.items()}
    if found != expected:
        yield f"tokens {subject.method.tokens}: expected kept ids of shapes {expected}; saw {found}"
        return
    if any((ids.diff(dim=1) <= 0).any() for ids in prediction.kept.values()):
        yield "expected kept ids to ascend"

    # Tokens after each block, as counted in its costs.
    if absent and not subject.method.has_modules:
        blocks = subject.backbone_family.num_blocks(spec)
        counts = tokens_per_block(resolve_routes(routes, blocks), blocks, spec.num_tokens)
        if bypass:
            for end in ends:
                counts[end] = spec.num_tokens
        if wrong := {block: count for block, count in seen.items() if count != counts[block]}:
            yield f"tokens {subject.method.tokens}: expected {counts} tokens after the blocks; saw {wrong}"
            return

    # Tokens that bypassed, after their route.
    for number, ids in prediction.kept.items() if bypass else ():
        route = subject.network.method.routes[number]
        inside, behind = received[route.blocks.start], received.get(route.blocks.stop)
        if behind is None:
            continue
        absent_BN = torch.ones(BATCH, spec.num_tokens, dtype=torch.bool).scatter(1, ids, False)
        at_start = replace(inside, streams=inside.background or inside.streams)
        before, after = (state.stream()[:, start.num_prefix :][absent_BN] for state in (at_start, behind))
        if not torch.equal(before, after):
            yield f"tokens bypass: expected tokens that bypass {route} to keep their value; saw another: state DROP"


def check_places(subject: MethodSubject) -> Iterator[str]:
    """A token comes back to its own place; a method with its own last layer, which may have positions, is not tried."""
    method, backbone, start = subject.network.method, subject.network.backbone, subject.start()
    if method.has_last_layer or min(start.grid) < 4:
        return
    tried = MovedTokens(method, backbone, start)

    # On a set, tokens that move with their masks are predicted alike, unless the method draws more than masks.
    expected, seen = tried.routed(tried.in_place).output, tried.routed(tried.moved).output
    draws_more = not torch.equal(tried.routed(tried.in_place, seed=1).output, expected)
    if not draws_more and close(tried.dense(tried.moved), tried.dense(tried.in_place)):
        what = "gradient" if close(seen, expected) else "output"
        if what == "output" or not close(tried.gradient(seen), tried.gradient(expected)):
            yield f"expected tokens that move with their masks to have the same {what} at their new places; saw another"
            return

    # Through blocks that change nothing, a token reaches its own place, unless it was dropped.
    tried.backbone.run_block = lambda block, state: state  # type: ignore[method-assign]
    prediction = tried.routed(tried.in_place)
    parts = [prediction.output * (tried.in_place == place).unsqueeze(1) for place in tried.in_place]
    own_BN = torch.stack([tried.gradient(part)[:, place].any(1) for place, part in enumerate(parts)], dim=1)
    if subject.method.tokens is Tokens.DROP:
        for ids in prediction.kept.values():
            own_BN |= torch.ones_like(own_BN).scatter(1, ids, False)
    if not own_BN.all():
        place = int((~own_BN).nonzero()[0, 1])
        yield f"expected what token {place} holds at its place after a route; saw only that of others there"


@torch.no_grad()
def check_selector(subject: MethodSubject) -> Iterator[str]:
    """Another selector gives it other tokens, unless its description says that it chooses itself."""
    family, spec, routes = subject.backbone_family, subject.spec, subject.cell.routes
    accepted = [name for name in selectors() if accepts(family, spec, routes, name)]
    others = [name for name in accepted if name != subject.cell.selector]
    if not routes or not others:
        return
    network = subject.fresh(selector=others[0])
    network.load_state_dict(subject.network.state_dict())
    follows = not torch.equal(subject.step(network).output, subject.step(subject.network).output)
    if follows == subject.method.chooses_tokens:
        effect = "changes" if follows else "does not change"
        yield f"chooses_tokens is {subject.method.chooses_tokens}, and another selector {effect} what it predicts"


@torch.no_grad()
def check_evaluation_options(subject: MethodSubject) -> Iterator[str]:
    """Options that are said to change the evaluation alone do so, and change nothing of what is trained."""
    for name, value in subject.method.evaluation_options.items():
        what = f"option {name}, at {value!r},"
        network = subject.fresh(method=subject.cell.method.evaluated_with({name: value}))
        initial, expected = network.state_dict(), subject.fresh().state_dict()
        shapes, expected_shapes = ({key: one.shape for key, one in state.items()} for state in (initial, expected))
        if shapes != expected_shapes or any(not torch.equal(initial[key], expected[key]) for key in expected):
            yield f"{what} changes the weights: it is said to change the evaluation alone"
            continue
        network.load_state_dict(subject.network.state_dict())
        for routing, first in [(0.0, 0), *subject.routed_steps]:
            trained, expected_step = (subject.at(one, routing, first) for one in (network, subject.network))
            if not torch.equal(trained, expected_step):
                yield f"{what} changes what a training step predicts: it is said to change the evaluation alone"
                break
        if torch.equal(network(subject.x, subject.t, subject.y), subject.evaluated()):
            yield f"{what} does not change the evaluation"


@torch.no_grad()
def check_draws(subject: MethodSubject) -> Iterator[str]:
    """A sample's prediction depends only on its index: it is the same for any split of the batch, in any order."""
    whole = subject.step(subject.network).output
    torch.manual_seed(1)
    if not torch.equal(subject.step(subject.network).output, whole):
        yield "the same step twice gives two predictions: it keeps a state, or draws from torch's generator"
        return
    parts = [subject.step(subject.network, first=first, count=2).output for first in range(0, BATCH, 2)]
    if not close(torch.cat(parts), whole):
        yield "the batch in parts gives another prediction: draw by sample number (`tread_bench.draws`)"


@torch.no_grad()
def check_state(subject: MethodSubject) -> Iterator[str]:
    """Everything that a step depends on is in the state dict, which checkpoints store."""
    expected = subject.step(subject.network).output
    again = subject.fresh()
    again.load_state_dict(subject.network.state_dict())
    if not torch.equal(subject.step(again).output, expected):
        yield "a network with the same state dict predicts something else: something is missing in it"


@torch.no_grad()
def check_shallow_path(subject: MethodSubject) -> Iterator[str]:
    """It predicts without its deep path exactly if its description says so, and otherwise refuses."""
    try:
        output = subject.network.method.shallow_forward(subject.network.backbone, subject.start())
    except ValueError:
        if subject.method.has_shallow_path:
            yield "has_shallow_path is True, and shallow_forward refuses"
        return
    if not subject.method.has_shallow_path:
        yield "has_shallow_path is False, and shallow_forward predicts"
    if output.shape != subject.x.shape or close(output, subject.evaluated()):
        yield "expected another prediction of x's shape without the deep path"


METHOD_CHECKS: tuple[Callable[[MethodSubject], Iterator[str]], ...] = (
    check_step,
    check_modules,
    check_evaluated,
    check_tokens,
    check_places,
    check_selector,
    check_evaluation_options,
    check_draws,
    check_state,
    check_shallow_path,
)


def check_method(
    method: MethodFamily | str,
    *,
    routes: RoutesLike = "1:3@0.5",
    options: Mapping[str, Any] | None = None,
    backbone: Mapping[str, Any] | None = None,
) -> list[Violation]:
    """Return the violations of the contract by a method, in the order of `METHOD_CHECKS`; empty if there are none.

    Args:
        method: what is announced in the group `tread_bench.methods`, or its name; it must be installed.
        routes: routes of the cell; left out for a method that takes none.
        options: options of the method, for a small network.
        backbone: name and sizes of the network; the default is a DiT of 5 blocks and width 16.

    Raises:
        ValueError: the method's own rules refuse the cell.
    """
    method = find_method(method) if isinstance(method, str) else method
    with torch.random.fork_rng(devices=[]):
        try:
            subject = MethodSubject(method, options or {}, routes, backbone or SMALL)
        except ValueError:
            raise
        except Exception as error:  # what cannot be built breaks the first rule, and no other makes sense
            return [Violation("step", f"builder {method.builder!r} raised {error_text(error)}")]
        return run_checks(METHOD_CHECKS, subject, first_decides=True)
