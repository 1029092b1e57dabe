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
from typing import Any

import torch
from torch import Tensor

from tread_bench.core.config.choices import BackboneChoice
from tread_bench.core.config.routed import setting_of
from tread_bench.core.config.suite import Cell
from tread_bench.core.config.training import Training
from tread_bench.core.describe.methods import Evaluated, MethodFamily, Tokens, methods
from tread_bench.core.describe.routes import RoutesLike, as_routes, resolve_routes, tokens_per_block
from tread_bench.core.describe.selectors import DEFAULT_SELECTOR, selectors
from tread_bench.core.describe.violations import Violation, run_checks
from tread_bench.core.errors import error_text
from tread_bench.core.names import few
from tread_bench.model.backbone import Backbone, TokenState, build_backbone, draw_weights, kind
from tread_bench.model.contract.backbones import SHOWN, accepts, close, gradients_of, move_weights, weighted
from tread_bench.model.methods.base import BatchRange, Method, Prediction, build_method
from tread_bench.model.network import Network

SMALL = {"name": "DiT", "depth": 5, "hidden": 16, "heads": 2, "patch": 2}
BATCH = 6
STEPS = 8  # training steps that are tried where they may differ
ALL = slice(None)


class MethodSubject:
    """A method on a small backbone for digits, with a batch to try it on.

    Args:
        options: options of the method.
        routes: of the cell; a method that takes none gets none.
        backbone: name and sizes of the backbone; with `num_classes: 0` and `context_tokens`, it is given random text.

    Raises:
        ValueError: options or routes do not fit, or the method's own rules refuse the cell.
    """

    def __init__(
        self, method: MethodFamily, options: Mapping[str, Any], routes: RoutesLike, backbone: Mapping[str, Any]
    ) -> None:
        # The cell, as a suite would resolve it.
        choice = BackboneChoice.model_validate(backbone)
        cell = Cell(backbone=choice, training=Training(iterations=8))
        self.method = method
        self.family = choice.family()
        self.spec = choice.spec(cell.data)
        taken = as_routes(routes) if method.takes_routes else ()
        resolved = self.family.resolve(self.spec, taken, DEFAULT_SELECTOR)
        self.cell = cell.model_copy(update={"method": method.options(**options), "routes": resolved})
        if problems := list(method.check(setting_of(self.cell))):
            raise ValueError("; ".join(problem.message for problem in problems))

        # The batch, and the network.
        self.generator = torch.Generator().manual_seed(0)
        size, text = self.spec.image_size, self.spec.context_shape
        self.x = torch.randn(BATCH, self.spec.channels, size, size, generator=self.generator)
        self.t = torch.rand(BATCH, generator=self.generator)
        self.y = self.empty_text = None
        if text is not None:
            self.y = torch.randn(BATCH, *text, generator=self.generator)
            self.empty_text = torch.zeros(text)
        elif self.spec.num_classes:
            self.y = torch.arange(BATCH)
        self.network = self.fresh()
        move_weights(self.network, self.generator)

    def build(self, cell: Cell, seed: int = 0) -> tuple[Backbone, Method]:
        """Return the backbone and the method of a cell with their initial weights."""
        backbone = build_backbone(self.family, self.spec, {"attention": "math"}, seed, cell.objective)
        method = build_method(cell, backbone)
        draw_weights(method, seed, method.init_module, "method.")
        return backbone, method

    def fresh(self, **changes: Any) -> Network:
        """Return the network of the changed cell with its initial weights, in eval mode, without dropout."""
        return Network(*self.build(self.cell.model_copy(update=changes))).eval()

    def step(
        self, network: Network, first: int = 0, part: slice = ALL, routing: float = 1.0, x: Tensor | None = None
    ) -> Prediction:
        """Return what the training step that begins with sample `first` predicts for a part of the batch, or of x."""
        x, t, y = self.x if x is None else x, self.t[part], self.y
        batch_range = BatchRange(seed=0, first=first, count=len(t), routing=routing, path_drop=False)
        return network.train_forward(x[part], t, y if y is None else y[part], batch_range)

    def steps(self, network: Network) -> list[Tensor]:
        """Return the outputs of some routed steps, since a method may draw what it does for each."""
        return [self.step(network, first=step * self.cell.training.batch).output for step in range(STEPS)]

    def start(self) -> TokenState:
        """Return the state before the first block."""
        return self.network.backbone.start(self.x, self.t, self.y)

    def evaluated(self, network: Network | None = None) -> Tensor:
        """Return the prediction of an evaluation."""
        return (network or self.network)(self.x, self.t, self.y)


@torch.no_grad()
def check_step(subject: MethodSubject) -> Iterator[str]:
    """A routed training step returns a `Prediction` of x's shape; otherwise no other check is run."""
    network = subject.network
    prediction: Any = network.method.train_forward(network.backbone, subject.start(), BatchRange(0, 0, BATCH))
    output = getattr(prediction, "output", prediction)
    if not isinstance(prediction, Prediction) or output.shape != subject.x.shape:
        expected = f"a tread_bench.Prediction with an output of shape {tuple(subject.x.shape)}"
        yield f"train_forward: expected {expected}; saw {type(prediction).__name__}, {kind(output)}"


def check_modules(subject: MethodSubject) -> Iterator[str]:
    """It has its own parameters exactly if it says so, and each gets a finite gradient in a routed step."""
    own = len(list(subject.network.method.parameters()))
    if bool(own) != subject.method.has_modules:
        yield f"has_modules is {subject.method.has_modules}, and it has {own} parameters of its own"
    if own:
        gradients = gradients_of(subject.network.method, subject.step(subject.network).output)
        if wrong := [name for name, one in gradients.items() if one is None or not one.isfinite().all()]:
            yield f"expected a finite gradient of {few(wrong, SHOWN)}; saw none, NaN or infinity"


@torch.no_grad()
def check_evaluated(subject: MethodSubject) -> Iterator[str]:
    """It is evaluated as its description says, and a step without routing, or at full rates, predicts the same."""
    network, method, output = subject.network, subject.method, subject.evaluated()
    if output.shape != subject.x.shape or not output.isfinite().all():
        yield f"expected a finite prediction of shape {tuple(subject.x.shape)}; saw {tuple(output.shape)}"
    elif not torch.equal(output, subject.evaluated()):
        yield "the same evaluation twice gives two predictions: it depends on more than its inputs"
    elif method.is_plain_backbone and not torch.equal(output, network.backbone(subject.x, subject.t, subject.y)):
        yield "without modules of its own and evaluated dense, expected the backbone's own dense prediction"
    else:
        is_dense = method.evaluated is Evaluated.DENSE
        if not close(output, subject.step(network, routing=0.0 if is_dense else 1.0).output):
            when = "without routing" if is_dense else "at full rates"
            yield f"evaluated {method.evaluated}: expected a step {when} to predict what the evaluation predicts"
        if is_dense and method.takes_routes and all(torch.equal(step, output) for step in subject.steps(network)):
            yield "a routed step predicts what a dense one does: its routes have no effect"


@torch.no_grad()
def check_tokens(subject: MethodSubject) -> Iterator[str]:
    """Tokens are treated as its description says: how many see each block, and which are reported as kept."""
    seen: dict[int, int] = {}

    def note(block: int, state: TokenState) -> None:
        seen[block] = state.stream().shape[1] - state.num_prefix

    # Kept tokens of a routed step.
    network, spec, routes = subject.network, subject.spec, subject.cell.routes
    prediction = network.method.train_forward(network.backbone, subject.start(), BatchRange(0, 0, BATCH), note)
    absent = subject.method.predicts_absent_tokens
    expected = {number: (BATCH, route.kept(spec.num_tokens)) for number, route in enumerate(routes)} if absent else {}
    found = {number: tuple(ids.shape) for number, ids in prediction.kept.items()}
    if found != expected:
        yield f"tokens {subject.method.tokens}: expected kept ids of shapes {expected}; saw {found}"
    elif any((ids.diff(dim=1) <= 0).any() for ids in prediction.kept.values()):
        yield "expected kept ids to ascend"

    # Tokens after each block, as counted in its costs.
    if absent and not subject.method.has_modules:
        blocks = subject.family.num_blocks(spec)
        counts = tokens_per_block(resolve_routes(routes, blocks), blocks, spec.num_tokens)
        if subject.method.tokens is Tokens.BYPASS:
            for route in routes:
                counts[int(route.end)] = spec.num_tokens
        if wrong := {block: count for block, count in seen.items() if count != counts[block]}:
            yield f"tokens {subject.method.tokens}: expected {counts} tokens after the blocks; saw {wrong}"


def check_places(subject: MethodSubject) -> Iterator[str]:
    """Through blocks that change nothing, a token comes back to its own place, unless it was dropped.

    One that bypasses has its value. A method with its own last layer, which may have positions, is not tried.
    """
    method, start = subject.network.method, subject.start()
    if method.has_last_layer:
        return
    backbone = copy(subject.network.backbone)
    backbone.run_block = lambda block, state: state  # type: ignore[method-assign]
    backbone.finish = TokenState.stream  # type: ignore[assignment, method-assign]
    streams = {name: start.streams[name].detach().requires_grad_() for name in start.routed}
    state = start.with_streams(**streams)
    after: dict[int, Tensor] = {}

    def note(block: int, state: TokenState) -> None:
        after[block] = state.stream()

    prediction = method.train_forward(backbone, state, BatchRange(0, 0, BATCH, path_drop=False), note)

    # Tokens that left, at the end of their route.
    is_absent = torch.zeros(BATCH, start.num_tokens, dtype=torch.bool)
    for number, ids in prediction.kept.items():
        left = torch.ones_like(is_absent).scatter(1, ids, False)
        is_absent |= left
        if subject.method.tokens is Tokens.BYPASS:
            route = method.routes[number]
            entered = after.get(int(route.start) - 1, state.stream())
            behind, before = (one[:, start.num_prefix :] for one in (after[int(route.end)], entered))
            if not torch.equal(behind[left], before[left]):
                yield "tokens bypass: expected tokens that bypass a route to keep their value; saw another: state DROP"

    # Of all others, what a token holds has an effect at its place.
    tokens = prediction.output[:, start.num_prefix :]
    for place in range(start.num_tokens):
        gradients = torch.autograd.grad(
            weighted(tokens[:, place]), list(streams.values()), retain_graph=True, materialize_grads=True
        )
        own = torch.stack(gradients).sum(0)[:, start.num_prefix + place].any(1)
        if not (own | is_absent[:, place]).all():
            yield f"expected what token {place} holds at its place after a route; saw only that of others there"


@torch.no_grad()
def check_selector(subject: MethodSubject) -> Iterator[str]:
    """Another selector gives it other tokens, unless its description says that it chooses itself."""
    others = [name for name in selectors() if name != subject.cell.selector]
    others = [name for name in others if accepts(subject.family, subject.spec, subject.cell.routes, name)]
    if not subject.cell.routes or not others:
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
    trained = [subject.step(subject.network, routing=0.0).output, *subject.steps(subject.network)]
    for name, value in subject.method.evaluation_options.items():
        what = f"option {name}, at {value!r},"
        method = subject.cell.method
        network = subject.fresh(method=method.model_validate({**method.model_dump(), name: value}))
        network.load_state_dict(subject.network.state_dict())
        if not all(map(torch.equal, [subject.step(network, routing=0.0).output, *subject.steps(network)], trained)):
            yield f"{what} changes what a training step predicts: it is said to change the evaluation alone"
        if torch.equal(subject.evaluated(network), subject.evaluated()):
            yield f"{what} does not change the evaluation"


@torch.no_grad()
def check_draws(subject: MethodSubject) -> Iterator[str]:
    """A sample's prediction depends only on its index: it is the same for any split of the batch, in any order."""
    whole = subject.step(subject.network).output
    torch.manual_seed(1)
    if not torch.equal(subject.step(subject.network).output, whole):
        yield "the same step twice gives two predictions: it keeps a state, or draws from torch's generator"
        return
    parts = [subject.step(subject.network, first, slice(first, first + 2)).output for first in range(0, BATCH, 2)]
    if not close(torch.cat(parts), whole):
        yield "the batch in parts gives another prediction: draw by sample number (`tread_bench.draws`)"


@torch.no_grad()
def check_state(subject: MethodSubject) -> Iterator[str]:
    """Everything that a step depends on is in the state dict, which checkpoints store."""
    again = subject.fresh()
    again.load_state_dict(subject.network.state_dict())
    if not torch.equal(subject.step(again).output, subject.step(subject.network).output):
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
    *(check_step, check_modules, check_evaluated, check_tokens, check_places, check_selector),
    *(check_evaluation_options, check_draws, check_state, check_shallow_path),
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
    method = methods.find(method) if isinstance(method, str) else method
    with torch.random.fork_rng(devices=[]):
        try:
            subject = MethodSubject(method, options or {}, routes, backbone or SMALL)
        except ValueError:
            raise
        except Exception as error:  # what cannot be built breaks the first rule, and no other makes sense
            return [Violation("step", f"builder {method.builder!r} raised {error_text(error)}")]
        return run_checks(METHOD_CHECKS, subject, first_decides=True)
