"""The recurrences, with every gradient, against themselves token by token in float64."""

from __future__ import annotations

from functools import partial

import pytest
import torch
import torch.nn.functional as F

from tests.pairs import in_turn
from tread_bench.model.ops.recurrence import delta_recurrence, linear_recurrence

KINDS = {  # channels of a decay, whether heads share q and k, whether there is a delta rule
    "gated linear attention": (6, False, False),
    "one decay per head": (1, False, False),
    "shared keys": (1, True, False),
    "gated delta rule": (1, False, True),
    "delta rule with a decay per channel": (6, False, True),
}
LENGTHS = [1, 7, 16, 53]  # one token, below a chunk, one chunk, and some behind the last whole one
DECAYS = {  # logarithm of a decay, drawn between these
    "usual": (-0.2, 0.0),
    "near 0": (-60.0, -20.0),
    "near 1": (-1e-6, 0.0),
    "mixed": (-90.0, 0.0),
}


def inputs(kind, length, decays="usual"):
    """q, k, v, g, with a and b of a delta rule that forgets part of what it reads, and a gradient of y."""
    channels, are_shared, is_delta = KINDS[kind]
    generator = torch.Generator().manual_seed(length)
    draw = lambda *shape: torch.randn(*shape, generator=generator)  # noqa: E731
    low, high = DECAYS[decays]
    uniform = torch.rand(2, 3, length, channels, generator=generator)
    g = low + (high - low) * (uniform**8 if decays == "mixed" else uniform)
    heads = 1 if are_shared else 3
    arguments = [draw(2, heads, length, 6), draw(2, heads, length, 6), draw(2, 3, length, 5), g]
    if is_delta:
        direction = F.normalize(draw(2, 3, length, 6), dim=-1)
        strength = torch.rand(2, 3, length, 1, generator=generator)
        arguments += [-direction * g.exp(), strength * direction]
    return arguments, draw(2, 3, length, 5)


def token_by_token(q, k, v, g, a=None, b=None):
    state = v.new_zeros(*v.shape[:2], k.shape[-1], v.shape[-1])
    y = []
    for t in range(v.shape[2]):
        read = 0 if a is None else torch.einsum("bhk,bhkv->bhv", a[:, :, t], state)
        state = g[:, :, t].exp()[..., None] * state + k[:, :, t, :, None] * v[:, :, t, None]
        if b is not None:
            state = state + b[:, :, t, :, None] * read[:, :, None]
        y.append((q[:, :, t, :, None] * state).sum(2))
    return torch.stack(y, 2)


def with_gradients(function, arguments, grad, dtype=torch.float32):
    leaves = [x.to(dtype).requires_grad_() for x in arguments]
    y = function(*leaves)
    return [y.detach(), *torch.autograd.grad(y, leaves, grad.to(dtype))]


every_kernel = pytest.mark.parametrize("kernel", ["torch", "numba"])


def computing(arguments, kernel):
    """The recurrence that takes these arguments."""
    return partial(delta_recurrence if len(arguments) == 6 else linear_recurrence, kernel=kernel)


def worst(computed, exact, floor=1e-30):
    """The largest error relative to the largest entry; entries below `floor` count as zero."""
    pairs = zip(computed, exact, strict=True)
    return max(((x - y).abs().max() / y.abs().max().clamp(min=floor)).item() for x, y in pairs)


@every_kernel
@pytest.mark.parametrize(("length", "decays"), in_turn(LENGTHS, DECAYS))
@pytest.mark.parametrize("kind", KINDS)
def test_float32_is_within_1e_5_of_the_recurrence_in_float64(kind, length, decays, kernel):
    arguments, grad = inputs(kind, length, decays)
    exact = with_gradients(token_by_token, arguments, grad, torch.float64)
    computed = with_gradients(computing(arguments, kernel), arguments, grad)
    plain = with_gradients(token_by_token, arguments, grad)
    floor = 1e-30 if length > 1 else 0.1  # one token has no state to decay, so no gradient of g
    for ours, theirs, truth in zip(computed, plain, exact, strict=True):
        assert worst([ours], [truth], floor) <= max(1e-5, worst([theirs], [truth], floor))


@every_kernel
@pytest.mark.parametrize("decays", DECAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_float64_is_the_recurrence(kind, decays, kernel):
    arguments, grad = inputs(kind, 37, decays)
    computed, exact = (
        with_gradients(function, arguments, grad, torch.float64)
        for function in (computing(arguments, kernel), token_by_token)
    )
    assert worst(computed, exact, floor=1e-3) < 1e-11


@every_kernel
def test_what_is_not_finite_stays_visible(kernel):
    arguments, _ = inputs("gated linear attention", 9)
    arguments[3][0, 1, 4, 2] = torch.nan
    y = linear_recurrence(*arguments, kernel)
    assert y[0, 1, 4:].isnan().all() and y[0, 1, :4].isfinite().all() and y[1].isfinite().all()
