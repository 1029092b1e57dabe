"""The recurrences against flash-linear-attention's own in PyTorch, which compute in float32 and take tokens first."""

from __future__ import annotations

import warnings

import pytest

from tests.model.ops.test_recurrence import every_kernel, inputs, with_gradients, worst
from tests.model.ops.test_recurrence_fla import gated_inputs
from tread_bench.model.ops.recurrence import delta_recurrence, gated_delta_rule, linear_recurrence

LENGTH = 64  # whole chunks of theirs


@pytest.fixture(scope="module")
def naive():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # without a GPU it says that there is none
        pytest.importorskip("fla.ops.gla.naive", reason="flash-linear-attention is not installed: `tox` installs it")
        from fla.ops.gated_delta_rule import naive as gated_delta
        from fla.ops.generalized_delta_rule.dplr import naive as dplr
        from fla.ops.gla import naive as gla
        from fla.ops.simple_gla import naive as simple_gla
    return {
        "gated linear attention": tokens_first(gla.naive_recurrent_gla),
        "one decay per head": tokens_first(simple_gla.naive_recurrent_simple_gla),
        "gated delta rule": tokens_first(gated_delta.naive_recurrent_gated_delta_rule),
        "delta rule with a decay per channel": lambda q, k, v, g, a, b: dplr.dplr_recurrence(q, k, v, a, b, g)[0],
        "the same in chunks": lambda q, k, v, g, a, b: dplr.dplr_chunkwise(q, k, v, a, b, g)[0],
    }


def tokens_first(function):
    """Of our arguments; decays and strengths of a whole head have no axis of channels, and come last."""

    def call(q, k, v, g, beta=None):
        of_heads = [x.squeeze(3) if x.shape[3] == 1 else x for x in (beta, g) if x is not None]
        return function(*(x.transpose(1, 2) for x in (q, k, v, *of_heads)))[0].transpose(1, 2)

    return call


@every_kernel
@pytest.mark.parametrize("decays", ["usual", "near 1"])
@pytest.mark.parametrize(
    ("kind", "ours"),
    {
        "gated linear attention": linear_recurrence,
        "one decay per head": linear_recurrence,
        "gated delta rule": gated_delta_rule,
        "delta rule with a decay per channel": delta_recurrence,
        "the same in chunks": delta_recurrence,
    }.items(),
)
def test_float32_is_their_recurrence(kind, ours, decays, kernel, naive):
    """Their queries are divided by the root of the keys' channels."""
    if ours is gated_delta_rule:
        arguments, grad = gated_inputs(LENGTH)
        arguments[3] = inputs(kind, LENGTH, decays)[0][3]
    else:
        arguments, grad = inputs("delta rule with a decay per channel" if "chunks" in kind else kind, LENGTH, decays)

    def scaled(q, *others):
        return ours(q * q.shape[-1] ** -0.5, *others, kernel=kernel)

    computed, expected = (with_gradients(function, arguments, grad) for function in (scaled, naive[kind]))
    assert worst(computed, expected, floor=1e-2) < 1e-5
