"""What must hold of every sampler: save this beside your own, and put its description in place of SAMPLER."""

import math
from itertools import pairwise

import torch
from two_step.family import TWO_STEP as SAMPLER

from tread_bench.diffusion.samplers.integrate import build_sampler, integrate

X = 1 + torch.rand(6, 1, 2, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def growth(x, t):
    """dx/dt = (1 + t) x, of which every solution is known."""
    return (1 + t).view(-1, 1, 1, 1) * x


def grown(start, end):
    """The factor by which x grows between two times."""
    return math.exp(end + end**2 / 2 - start - start**2 / 2)


def noise(x, step):
    drawn = torch.randn(X.shape, generator=torch.Generator().manual_seed(step), dtype=X.dtype)
    return drawn[: len(x)]


def sampled(x, times, velocity=growth, perturb=None):
    drawn = noise if SAMPLER.draws_noise else None
    return integrate(build_sampler(SAMPLER), velocity, x, times, perturb, drawn)


def times_to(end, steps):
    """Descending times from 1, with shorter steps at the end."""
    return [end + (1 - end) * ((steps - step) / steps) ** 1.5 for step in range(steps + 1)]


def has_its_order(error_of):
    """Whether the error falls by 2^order with twice the steps, as long as it is above rounding."""
    errors = [error for error in map(error_of, (8, 16, 32, 64)) if error > 1e-12]
    orders = [math.log2(coarse / fine) for coarse, fine in pairwise(errors)]
    return not orders or abs(orders[-1] - SAMPLER.order) <= 0.3


def test_step():
    """It takes x to finite numbers of its shape and type."""
    x = sampled(X, times_to(0.0, 4))
    assert x.shape == X.shape and x.dtype == X.dtype and x.isfinite().all()


def test_calls():
    """It asks for the velocity at the times that `call_times` says, equally often in every step but the last."""
    for steps in (1, 2, 7):
        seen = []

        def velocity(x, t, seen=seen):
            seen.append(float(t[0]))
            return growth(x, t)

        times = times_to(0.0, steps)
        stated = [time for now, after in pairwise(times) for time in SAMPLER.call_times(now, after)]
        sampled(X, times, velocity)
        assert len(stated) == SAMPLER.num_calls(steps)
        torch.testing.assert_close(seen, stated, rtol=1e-9, atol=0)


def test_order():
    """With twice the steps the error is 2^-order of what it was; of one that draws noise see below."""

    def error_of(steps):
        return float((sampled(X, times_to(0.25, steps)) - grown(1, 0.25) * X).abs().max())

    assert SAMPLER.draws_noise or has_its_order(error_of)


def test_batch():
    """A sample depends neither on the others of its batch nor on what was sampled before."""
    whole = sampled(X, times_to(0.0, 8))
    assert torch.equal(sampled(X, times_to(0.0, 8)), whole)
    torch.testing.assert_close(sampled(X[:2], times_to(0.0, 8)), whole[:2], rtol=1e-9, atol=1e-12)


def test_churn():
    """With `takes_churn` the order holds where each step starts elsewhere: here at -x, at a higher time."""

    def error_of(steps):
        times = times_to(0.25, steps)
        raised = [now + (now - after) / 2 for now, after in pairwise(times)]
        found = sampled(X, times, perturb=lambda x, t, step: (-x, raised[step]))
        factors = [-grown(now, after) for now, after in zip(raised, times[1:], strict=True)]
        return float((found - math.prod(factors) * X).abs().max())

    assert not SAMPLER.takes_churn or has_its_order(error_of)


def test_noise():
    """With `draws_noise` the variance of samples of normal data has an error of that order.

    All is linear, so each step's noise is seen on a sample of its own, which starts from 0; the first has none.
    """
    deviation = 0.5

    def normal_data(x, t):
        t = t.view(-1, 1, 1, 1)
        return t * x / (deviation**2 + t**2)

    def error_of(steps):
        x = torch.zeros(steps + 1, 1, 1, 1, dtype=torch.float64)
        x[0] = math.hypot(deviation, 1)
        units = torch.eye(steps + 1, dtype=torch.float64).view(steps + 1, steps + 1, 1, 1, 1)
        found = integrate(
            build_sampler(SAMPLER), normal_data, x, times_to(0.25, steps), noise=lambda x, step: units[step + 1]
        )
        assert found[1:].any(), "it is given noise and does not use it"
        return abs(float(found.square().sum()) - (deviation**2 + 0.25**2))

    assert not SAMPLER.draws_noise or has_its_order(error_of)
