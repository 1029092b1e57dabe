"""The contract of wrapped networks, as checks for their authors to run on their own inputs.

    from tread_bench.contract import check_wrapped

    def test_it_can_be_routed():
        assert check_wrapped(routed, x, t, y) == []

Weights are moved away from their values while the checks run, so that a layer that starts at zero hides nothing. They
are restored bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from copy import deepcopy

import torch
from torch import Tensor

from tread_bench.core.describe.violations import Violation, run_checks
from tread_bench.core.names import few
from tread_bench.model.backbone import kind
from tread_bench.model.contract.checks import (
    SHOWN,
    check_blocks,
    check_bypassed,
    check_checkpointing,
    check_independence,
    check_order,
    check_rate_zero,
    close,
    differ,
    distance,
    not_equal,
)
from tread_bench.model.contract.subject import Trial, move_weights
from tread_bench.model.wrapped import RoutedNetwork


class WrappedTrial(Trial):
    """A wrapped network, inputs for it, and the original network as its owner calls it."""

    model: RoutedNetwork

    def __init__(
        self, model: RoutedNetwork, inputs: tuple[Tensor, Tensor, Tensor | None], original: Callable[..., Tensor]
    ) -> None:
        super().__init__(model, inputs[0].device)
        self.inputs = inputs
        self.original = original

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


def check_prefix(subject: WrappedTrial) -> Iterator[str]:
    """Tokens that do not depend on x come first and are counted in `num_prefix`, since they must not be routed."""
    x, t, y = subject.inputs
    if not x.is_floating_point():
        return
    state = subject.start()
    other = subject.model.start(x + subject.normal(*x.shape).to(x.dtype), t, y)
    fixed = (state.streams["tokens"] == other.streams["tokens"]).all(2).any(0).nonzero().flatten().tolist()
    routed = [place for place in fixed if place >= state.num_prefix]
    if routed:
        yield (
            f"expected every token after num_prefix={state.num_prefix} to depend on x; saw that tokens {routed} do "
            "not: let embed put such tokens first, and count them in num_prefix"
        )


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
        "in embed, blocks, head and call use the network that is passed, not a variable from outside",
    )


WRAPPED_CHECKS: tuple[Callable[[WrappedTrial], Iterator[str]], ...] = (
    check_dense,
    check_prefix,
    check_blocks,
    check_independence,
    check_rate_zero,
    check_bypassed,
    check_order,
    check_checkpointing,
    check_copies,
)


def check_wrapped(
    model: RoutedNetwork,
    x: Tensor,
    t: Tensor,
    y: Tensor | None = None,
    *,
    original: Callable[..., Tensor] | None = None,
) -> list[Violation]:
    """Return what prevents a wrapped network from being routed, in the order of `WRAPPED_CHECKS`; empty if nothing.

    The network runs in eval mode; weights, buffers and modes are restored.

    Args:
        x, t, y: a small batch for the network: 2 samples with 4 tokens or more.
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
