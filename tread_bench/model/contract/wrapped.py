"""The contract of wrapped networks, as checks for their authors to run on their own inputs.

    from tread_bench.contract import check_wrapped

    def test_it_can_be_routed():
        assert check_wrapped(routed, x, t, y) == []

Weights are moved away from their values while the checks run, so that a layer that starts at zero hides nothing. They
are restored bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from tread_bench.core.describe.violations import Violation, run_checks
from tread_bench.core.names import few
from tread_bench.model.backbone import kind
from tread_bench.model.contract.checks import (
    SHOWN,
    check_blocks,
    check_checkpointing,
    check_independence,
    check_order,
    check_rate_zero,
    close,
    differ,
    distance,
    not_equal,
    read,
)
from tread_bench.model.contract.subject import Case, Step, Trial, move_weights, steps
from tread_bench.model.wrapped import RoutedNetwork, WrappedState


class WrappedTrial(Trial):
    """A wrapped network, inputs for it, and the original network as its owner calls it."""

    model: RoutedNetwork
    inputs: tuple[Tensor, Tensor, Any]

    def __init__(
        self, model: RoutedNetwork, inputs: tuple[Tensor, Tensor, Any], original: Callable[..., Tensor]
    ) -> None:
        super().__init__(model, inputs[0].device)
        self.inputs = inputs
        self.original = original

    def start(self) -> WrappedState:
        """Return the state before the first block."""
        return self.model.start(*self.inputs)

    def others(self) -> tuple[Tensor, Tensor, Any]:
        """Return another batch of the same shapes."""
        x, t, y = self.inputs
        if isinstance(y, Mapping):
            return -x, t.roll(1), {name: one.roll(1, 0) if len(one) == len(x) else one for name, one in y.items()}
        return super().others()

    def spans(self) -> Iterable[tuple[int, int]]:
        """Return all blocks, and each block alone."""
        last = self.model.num_blocks - 1
        return dict.fromkeys([(0, last), *((block, block) for block in range(last + 1))])


def check_dense(subject: WrappedTrial) -> Iterator[str]:
    """Without routes, the wrapped network gives the same prediction and gradients as the network itself."""
    expected = subject.original(*subject.inputs)
    seen = subject.predict()
    if seen.shape != expected.shape or seen.dtype != expected.dtype:
        yield f"expected {kind(expected)}, as the network itself gives; saw {kind(seen)}"
        return
    if not close(expected, seen):
        yield f"expected the prediction of the network itself; saw a difference of {distance(expected, seen):.1e}"
    gradients = subject.gradients_of(seen)
    wrong = [name for name, gradient in subject.gradients_of(expected).items() if differ(gradient, gradients[name])]
    if wrong:
        yield f"expected the gradient of {few(wrong, SHOWN)} that the network itself gives; saw another, or none"


def check_routable(subject: WrappedTrial) -> Iterator[str]:
    """Tokens that do not depend on x, such as text, are never routed."""
    x, t, y = subject.inputs
    if not x.is_floating_point():
        return
    state = subject.start()
    other = subject.model.start(x + subject.normal(*x.shape).to(x.dtype), t, y)
    fixed = (state.streams["tokens"] == other.streams["tokens"]).all(2).any(0).nonzero().flatten().tolist()
    start, stop = state.before, state.before + state.num_tokens
    routed = [place - state.num_prefix + start for place in fixed if place >= state.num_prefix]
    if routed:
        yield (
            f"expected every token that can be routed, {start} to {stop - 1}, to depend on x; saw that tokens {routed} "
            "do not: text, registers and class tokens are never routed; let embed return a TokenSequence whose "
            "`routable` leaves them out"
        )


def check_rows(subject: WrappedTrial) -> Iterator[str]:
    """A block computes each sample with rows of its own tokens: a sample alone gives what it gives in its batch."""
    for case in (None, *subject.cases):
        for step in _steps_on(subject, case):
            for sample in range(step.before.batch):
                alone = replace(step.before, streams=step.streams).only(torch.tensor([sample], device=subject.device))
                expected = subject.model.run_block(step.block, alone).streams["tokens"]
                seen = step.after.streams["tokens"][sample : sample + 1]
                if not close(expected, seen):
                    yield (
                        f"block {step.block}, {case or 'dense'}: expected sample {sample} as it is alone; saw a "
                        f"difference of {distance(expected, seen):.1e}: it depends on another sample; give a block "
                        "each sample's own rows (rotary, masks, time), as `tokens.rows` has them, (B, S, ...)"
                    )


def check_text(subject: WrappedTrial) -> Iterator[str]:
    """In a route each sample reads the tokens of its text that it reads without one: padding stays masked."""
    if not subject.start().num_prefix:
        return
    dense = [_text_read(subject, step) for step in _steps_on(subject, None)]
    for case in subject.cases:
        for step in _steps_on(subject, case):
            other = (_text_read(subject, step) != dense[step.block]).any(0)
            if other.any():
                yield (
                    f"block {step.block}, {case}: expected the tokens beside the image to be read as without a route; "
                    f"saw that {few([str(one) for one in other.nonzero().flatten().tolist()], SHOWN)} of them are "
                    "not: pass the rows of a padding mask on in a route as well"
                )


def _steps_on(subject: WrappedTrial, case: Case | None) -> Iterator[Step]:
    """The blocks of a route one by one; without one, all blocks."""
    for step in steps(subject.model, subject.start(), case):
        if case is None or step.before.ids is not None:
            yield step


def _text_read(subject: WrappedTrial, step: Step) -> Tensor:
    """Return which of the tokens that are never routed (B, P) a block's image tokens depend on."""
    prefix = step.before.num_prefix
    text = step.streams["tokens"][:, :prefix].detach().requires_grad_()
    tokens = torch.cat([text, step.streams["tokens"][:, prefix:].detach()], dim=1)
    after = subject.model.run_block(step.block, step.before.with_streams(tokens=tokens))
    return read(after.streams["tokens"][:, prefix:], text)


def check_copies(subject: WrappedTrial) -> Iterator[str]:
    """A deep copy, such as an average of weights, computes with its own weights only."""
    copied = deepcopy(subject.model)
    move_weights(copied, subject.generator)
    seen = copied(*subject.inputs)
    with torch.no_grad():
        for parameter, moved in zip(subject.model.parameters(), copied.parameters(), strict=True):
            parameter.copy_(moved)
    yield from not_equal(
        "a deep copy to compute with its own weights",
        subject.predict(),
        seen,
        ": in embed, blocks, head and call use the network that is passed, not a variable from outside",
    )


WRAPPED_CHECKS: tuple[Callable[[WrappedTrial], Iterator[str]], ...] = (
    check_dense,
    check_routable,
    check_rows,
    check_text,
    check_blocks,
    check_independence,
    check_rate_zero,
    check_order,
    check_checkpointing,
    check_copies,
)


def check_wrapped(
    model: RoutedNetwork,
    x: Tensor,
    t: Tensor,
    y: Any = None,
    *,
    original: Callable[..., Tensor] | None = None,
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
    with torch.random.fork_rng(devices=[]), _as_it_was(model):
        subject = WrappedTrial(model.eval(), (x, t, y), original or model.network)
        if subject.num_tokens < 4:
            raise ValueError(f"{subject.num_tokens} tokens are too few to route: take a larger x")
        move_weights(model, subject.generator)
        return run_checks(WRAPPED_CHECKS, subject)


@contextmanager
def _as_it_was(model: RoutedNetwork) -> Iterator[None]:
    """Restore weights, buffers and modes afterwards, whatever happens in between."""
    values = [(tensor, tensor.detach().clone()) for tensor in (*model.parameters(), *model.buffers())]
    modes = [(module, module.training) for module in model.modules()]
    try:
        yield
    finally:
        with torch.no_grad():
            for tensor, value in values:
                tensor.copy_(value)
        for module, training in modes:
            module.training = training
