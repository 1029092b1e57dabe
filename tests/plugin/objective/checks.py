"""What must hold of every objective: save this beside your own, and put its description in place of OBJECTIVE.

The data are normal, so that regression gives the best network at every time: an affine one.
"""

from itertools import pairwise

import torch
from trig_flow.family import TRIG as OBJECTIVE

from tread_bench.diffusion.objectives.base import build_objective

OPTIONS = {}
SAMPLES, STEPS = 4096, 200
GENERATOR = torch.Generator().manual_seed(0)
NOISE, NORMAL = torch.randn(2, SAMPLES, 1, 1, 1, generator=GENERATOR, dtype=torch.float64)
X = 0.3 + 0.5 * NORMAL
NEAR = 0.05  # of a mean and a standard deviation over the samples; chance accounts for 0.01


def options():
    return OBJECTIVE.options(**OPTIONS)


def built():
    return build_objective(options())


def at(time):
    return torch.full((SAMPLES,), time, dtype=torch.float64)


def regression(seen, wanted):
    """The best affine function of what is seen."""
    centred = seen - seen.mean()
    slope = (centred * wanted).mean() / centred.square().mean()
    return lambda x: wanted.mean() + slope * (x - seen.mean())


def best(objective, time):
    """The network with the least loss at a time. A variance, where one is learned, is 0: the middle of its range."""
    seen = []

    def with_variance(prediction):
        return torch.cat([prediction, 0 * prediction], 1) if options().reads_variance else prediction

    # The loss is quadratic in the prediction, so that two gradients give each sample's target.
    def gradient(value):
        prediction = torch.full_like(X, value, requires_grad=True)

        def predict(x, t):
            seen.append(x.double())
            return with_variance(prediction)

        loss = objective.losses(predict, X, NOISE, at(time)).double().sum()
        return torch.autograd.grad(loss, prediction)[0]

    at_zero, at_one = gradient(0.0), gradient(1.0)
    fitted = regression(seen[0], -at_zero / (at_one - at_zero))
    return lambda x, t: with_variance(fitted(x))


def test_times():
    """Training times are drawn by sample number; sampling times are as stated, from the end of the range to 0."""
    objective = built()
    low, high = options().time_range
    drawn = objective.draw_times(0, 0, 64)
    assert drawn.shape == (64,) and drawn.isfinite().all() and (drawn > 0).all()
    torch.testing.assert_close(torch.cat([objective.draw_times(0, 16 * n, 16) for n in range(4)]), drawn)
    times = objective.sampling_times(STEPS)
    assert times == [options().sampling_time(step, STEPS) for step in range(STEPS + 1)]
    assert times[-1] == 0 and all(after < before for before, after in pairwise(times))
    assert abs(times[0] - high) <= 1e-9 * high
    assert len(objective.validation_times) == 8
    assert all(low <= time <= high for time in (*objective.validation_times, *objective.similarity_times))


def test_losses():
    """A sample's loss is the mean of its errors, neither negative nor infinite."""
    objective = built()
    for time in objective.validation_times:
        inputs = best(objective, time), X, NOISE, at(time)
        errors, losses = objective.errors(*inputs), objective.losses(*inputs)
        assert errors.shape == X.shape and losses.shape == (SAMPLES,)
        assert losses.isfinite().all() and (losses >= 0).all()
        torch.testing.assert_close(losses.double(), errors.flatten(1).mean(1).double(), rtol=1e-4, atol=1e-6)


def test_clean():
    """The best network's estimate is the mean of the data, given what is seen."""
    objective = built()
    for time in objective.validation_times:
        seen = objective.corrupt(X, NOISE, at(time)).double()
        found = objective.clean(best(objective, time), seen, at(time)).double()
        assert (found - regression(seen, X)(seen)).abs().max() <= NEAR


def test_sampling():
    """Euler steps along the best network's velocity turn noise into the distribution of the data."""
    objective = built()
    x = objective.prior(NOISE)
    for now, after in pairwise(objective.sampling_times(STEPS)):
        x = x + (after - now) * objective.velocity(best(objective, now), x, at(now)).double()
    assert abs(x.mean() - 0.3) <= NEAR and abs(x.std() - 0.5) <= NEAR


def test_variance():
    """With `reads_variance` the loss depends on the variance, which is behind the velocity as it is."""
    objective = built()
    for time in objective.validation_times if options().reads_variance else ():
        network, learned = best(objective, time), (NOISE / 4).requires_grad_()

        def predict(x, t, network=network, learned=learned):
            return torch.cat([network(x, t)[:, :1], learned], dim=1)

        loss = objective.losses(predict, X, NOISE, at(time)).double().sum()
        (gradient,) = torch.autograd.grad(loss, learned)
        assert gradient.isfinite().all() and gradient.any()
        seen = objective.corrupt(X, NOISE, at(time))
        both = objective.velocity_and_variance(predict, seen, at(time))
        alone = objective.velocity(predict, seen, at(time))
        torch.testing.assert_close(both.double(), torch.cat([alone, learned], 1).double(), rtol=1e-5, atol=1e-8)
