"""The contract of wrapped networks, as checks for their authors to run on their own inputs.

    from tread_bench.contract import check_wrapped

    def test_it_can_be_routed():
        assert check_wrapped(routed, x, t, y) == []

Weights are moved away from their values while the checks run, so that a layer that starts at zero hides nothing. They
are restored bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tread_bench.core.describe.violations import Violation, run_checks
from tread_bench.core.names import few
from tread_bench.model.backbone import kind
from tread_bench.model.contract import backbones as rules
from tread_bench.model.wrapped import RoutedNetwork


@dataclass
class WrappedTrial(rules.Trial):
    """A wrapped network, inputs for it, and the original network as its owner calls it."""

    model: RoutedNetwork
    original: Callable[..., Tensor]

    def steps_on(self, case: rules.Case | None) -> Iterator[rules.Step]:
        """Yield the blocks of a route one by one; without one, all blocks."""
        for step in rules.steps(self.model, self.start(), case):
            if case is None or step.before.ids is not None:
                yield step


def check_dense(subject: WrappedTrial) -> Iterator[str]:
    """Without routes, the wrapped network gives the same prediction and gradients as the network itself."""
    expected = subject.original(*subject.inputs)
    seen = subject.predict()
    if seen.shape != expected.shape or seen.dtype != expected.dtype:
        yield f"expected {kind(expected)}, as the network itself gives; saw {kind(seen)}"
        return
    yield from rules.differs("", "the prediction of the network itself", expected, seen, tolerance=rules.TOLERANCE)
    gradients, others = (rules.gradients_of(subject.model, one) for one in (expected, seen))
    if wrong := rules.other_gradients(gradients, others):
        yield f"expected the gradient of {few(wrong, rules.SHOWN)} that the network itself gives; saw another, or none"


def check_routable(subject: WrappedTrial) -> Iterator[str]:
    """Tokens that do not depend on x, such as text, are never routed."""
    x, t, y = subject.inputs
    if not x.is_floating_point():
        return
    state = subject.model.start(x, t, y)
    noise = torch.randn(x.shape, generator=subject.generator).to(x)
    other = subject.model.start(x + noise, t, y)
    fixed = (state.streams["tokens"] == other.streams["tokens"]).all(2).any(0)[state.num_prefix :]
    if fixed.any():
        start, stop = state.before, state.before + state.num_tokens
        routed = [start + place for place in fixed.nonzero().flatten().tolist()]
        seen = (
            f"expected every token that can be routed, {start} to {stop - 1}, to depend on x; saw that {routed} do not"
        )
        yield f"{seen}: let embed return a TokenSequence whose `routable` leaves out text, registers and class tokens"


def check_rows(subject: WrappedTrial) -> Iterator[str]:
    """A block computes each sample with rows of its own tokens: a sample alone gives what it gives in its batch."""
    for case in (None, *subject.cases):
        for step in subject.steps_on(case):
            for sample in range(step.before.batch):
                alone = step.before.only(torch.tensor([sample], device=step.before.device))
                expected = subject.model.run_block(step.block, alone).streams["tokens"]
                seen = step.after.streams["tokens"][sample : sample + 1]
                where, what = f"block {step.block}, {case or 'dense'}: ", f"sample {sample} as it is alone"
                advice = (
                    ": it depends on another sample; give a block each sample's own rows, `tokens.rows` (B, S, ...)"
                )
                yield from rules.differs(where, what, expected, seen, advice, rules.TOLERANCE)


def check_text(subject: WrappedTrial) -> Iterator[str]:
    """In a route each sample reads the tokens of its text that it reads without one: padding stays masked."""
    if not subject.start().num_prefix:
        return
    dense = [_text_read(subject, step) for step in subject.steps_on(None)]
    for case in subject.cases:
        for step in subject.steps_on(case):
            other = (_text_read(subject, step) != dense[step.block]).any(0)
            if other.any():
                yield (
                    f"block {step.block}, {case}: expected the tokens beside the image to be read as without a route; "
                    f"saw that {rules.numbers(other)} of them are not: pass on the rows of a padding mask there too"
                )


def _text_read(subject: WrappedTrial, step: rules.Step) -> Tensor:
    """Return which of the tokens that are never routed (B, P) a block's image tokens depend on."""
    text, image = step.before.streams["tokens"].detach().tensor_split([step.before.num_prefix], dim=1)
    text.requires_grad_()
    after = subject.model.run_block(step.block, step.before.with_streams(tokens=torch.cat([text, image], dim=1)))
    return rules.read(after.streams["tokens"][:, text.shape[1] :], text)


def check_copies(subject: WrappedTrial) -> Iterator[str]:
    """A deep copy, such as an average of weights, computes with its own weights only."""
    copied = deepcopy(subject.model)
    rules.move_weights(copied, subject.generator)
    seen = copied(*subject.inputs)
    with torch.no_grad():
        for parameter, moved in zip(subject.model.parameters(), copied.parameters(), strict=True):
            parameter.copy_(moved)
    advice = ": in embed, blocks, head and call use the network that is passed, not a variable from outside"
    yield from rules.differs("", "a deep copy to compute with its own weights", subject.predict(), seen, advice)


WRAPPED_CHECKS: tuple[Callable[[WrappedTrial], Iterator[str]], ...] = (
    *(check_dense, check_routable, check_rows, check_text),
    *(*rules.SHARED, check_copies),
)


def check_wrapped(
    model: RoutedNetwork, x: Tensor, t: Tensor, y: Any = None, *, original: Callable[..., Tensor] | None = None
) -> list[Violation]:
    """Return what prevents a wrapped network from being routed, in the order of `WRAPPED_CHECKS`; empty if nothing.

    The network runs in eval mode; weights, buffers and modes are restored.

    Args:
        x, t, y: a small batch for the network: 2 samples with 4 tokens or more, and captions of different lengths; y
            is a tensor, a dict of tensors, or None.
        original: (x, t, y) -> the prediction of the network itself, as a tensor; by default `model.network(x, t, y)`.

    Raises:
        ValueError: fewer than 4 tokens to route, or inputs that `RoutedNetwork` refuses.
    """
    values = [(tensor, tensor.detach().clone()) for tensor in (*model.parameters(), *model.buffers())]
    modes = [(module, module.training) for module in model.modules()]
    try:
        with torch.random.fork_rng(devices=[]):
            generator = torch.Generator().manual_seed(0)
            subject = WrappedTrial(model.eval(), (x, t, y), generator, original or model.network)
            if (num_tokens := subject.start().num_tokens) < 4:
                raise ValueError(f"{num_tokens} tokens are too few to route: take a larger x")
            rules.move_weights(model, subject.generator)
            return run_checks(WRAPPED_CHECKS, subject)
    finally:
        with torch.no_grad():
            for tensor, value in values:
                tensor.copy_(value)
        for module, training in modes:
            module.training = training
