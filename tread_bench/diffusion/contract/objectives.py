"""The contract of objectives, as checks for their authors to run.

    from tread_bench.contract import check_objective

    def test_the_contract_holds():
        assert check_objective(OBJECTIVE) == []

The data are drawn from a normal distribution, for which regression gives the best network output at every time:
sampled with many steps, that output must reproduce the distribution.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from tread_bench.core.describe.objectives import ObjectiveFamily, find_objective
from tread_bench.core.describe.plugins import by_name
from tread_bench.core.describe.violations import Violation, run_checks
from tread_bench.diffusion.objectives.base import Objective, build_objective

SAMPLES = 4096
STEPS = 200
VALIDATION_TIMES = 8
MEAN, DEVIATION = 0.3, 0.5  # of the data
TOLERANCE = 0.05  # of a mean and a standard deviation over the samples; chance accounts for 0.01


class ObjectiveSubject:
    """An objective with normal data, in float64.

    Args:
        options: options of the objective.
    """

    def __init__(self, family: ObjectiveFamily, options: Mapping[str, Any]) -> None:
        self.family = family
        self.options = family.options(**options)
        self.objective: Objective = build_objective(self.options)
        generator = torch.Generator().manual_seed(0)
        shape = (SAMPLES, 1, 1, 1)
        self.learned = 1 if self.options.reads_variance else 0  # channels of a variance, behind the prediction's one
        self.x = MEAN + DEVIATION * torch.randn(shape, generator=generator, dtype=torch.float64)
        self.noise = torch.randn(shape, generator=generator, dtype=torch.float64)

    def at(self, time: float) -> Tensor:
        """Return that time for every sample (B,)."""
        return torch.full((SAMPLES,), time, dtype=torch.float64)

    def best_output(self, time: float) -> Callable[[Tensor, Tensor], Tensor]:
        """Return the network with the least loss at that time; for normal data its output is affine in its input.

        The loss is quadratic in the prediction, so two gradients give each sample's target. A variance is 0, in the
        middle of its range.
        """
        # The network's input, and the target at which the loss's gradient vanishes.
        shown: list[Tensor] = []

        def gradient_at(value: float) -> Tensor:
            prediction = torch.full_like(self.x, value, requires_grad=True)

            def predict(x: Tensor, t: Tensor) -> Tensor:
                shown.append(x)
                return self.with_variance(prediction)

            loss = self.objective.losses(predict, self.x, self.noise, self.at(time)).double().sum()
            (gradient,) = torch.autograd.grad(loss, prediction)
            return gradient

        at_zero, at_one = gradient_at(0.0), gradient_at(1.0)
        target = -at_zero / (at_one - at_zero)

        # The regression of the target on the input.
        seen = shown[0].double()
        slope = ((seen - seen.mean()) * (target - target.mean())).mean() / (seen - seen.mean()).square().mean()
        offset = target.mean() - slope * seen.mean()
        return lambda x, t: self.with_variance(slope * x + offset)

    def with_variance(self, prediction: Tensor) -> Tensor:
        """Return a network's output: the prediction, and a variance of 0 where one is learned."""
        return torch.cat([prediction, torch.zeros_like(prediction)[:, : self.learned]], dim=1)


def check_times(subject: ObjectiveSubject) -> Iterator[str]:
    """Training times lie in their range and are drawn by sample; sampling times descend from its end to 0."""
    low, high = subject.options.time_range
    drawn = subject.objective.draw_times(0, 0, 64)
    parts = torch.cat([subject.objective.draw_times(0, first, 16) for first in range(0, 64, 16)])
    if drawn.shape != (64,) or not torch.allclose(parts, drawn, rtol=1e-5):
        yield "expected training times (B,) that do not depend on how a batch is cut"
    if not drawn.isfinite().all() or (drawn <= 0).any():
        yield "expected training times to be finite and above 0"
    times = subject.objective.sampling_times(STEPS)
    if len(times) != STEPS + 1 or times[-1] != 0 or any(after >= before for before, after in pairwise(times)):
        yield f"expected {STEPS + 1} sampling times that descend to 0; saw {times[:2]} .. {times[-2:]}"
    stated = [subject.options.sampling_time(step, STEPS) for step in range(STEPS + 1)]
    if times != stated:
        yield "sampling_times and the options' sampling_time disagree"
    if abs(times[0] - high) > 1e-9 * abs(high):
        yield f"expected the first sampling time at the end of time_range, {high:g}; saw {times[0]:g}"
    named = (*subject.objective.validation_times, *subject.objective.similarity_times)
    if len(subject.objective.validation_times) != VALIDATION_TIMES or not all(low <= time <= high for time in named):
        yield f"expected {VALIDATION_TIMES} validation times and all named times in {low:g}..{high:g}; saw {named}"


def check_losses(subject: ObjectiveSubject) -> Iterator[str]:
    """A sample's loss is the mean of its errors, is not negative, and is smallest for the best output."""
    for time in subject.objective.validation_times:
        best = subject.best_output(time)
        t = subject.at(time)
        errors = subject.objective.errors(best, subject.x, subject.noise, t)
        losses = subject.objective.losses(best, subject.x, subject.noise, t)
        if losses.shape != (SAMPLES,) or errors.shape != subject.x.shape:
            yield f"expected losses (B,) and errors (B, C, H, W); saw {tuple(losses.shape)} and {tuple(errors.shape)}"
            return
        if not torch.allclose(errors.flatten(1).mean(1).double(), losses.double(), rtol=1e-4, atol=1e-6):
            yield f"at time {time:g} the losses are not the means of the errors"
        if (losses < 0).any() or not losses.isfinite().all():
            yield f"at time {time:g} a loss is negative, NaN or infinite"


def check_clean(subject: ObjectiveSubject) -> Iterator[str]:
    """The best network's estimate of the data is their conditional mean; for normal data it is affine in the input."""
    for time in subject.objective.validation_times:
        t = subject.at(time)
        seen = subject.objective.corrupt(subject.x, subject.noise, t)
        found = subject.objective.clean(subject.best_output(time), seen, t).double()
        slope = ((seen - seen.mean()) * subject.x).mean() / (seen - seen.mean()).square().mean()
        expected = subject.x.mean() + slope * (seen - seen.mean())
        if (found - expected).abs().max() > TOLERANCE:
            yield f"at time {time:g} `clean` is up to {float((found - expected).abs().max()):.3f} off the data's mean"


def check_sampling(subject: ObjectiveSubject) -> Iterator[str]:
    """Euler steps along the velocity of the best network turn noise into the data's distribution."""
    x = subject.objective.prior(subject.noise)
    for before, after in pairwise(subject.objective.sampling_times(STEPS)):
        velocity = subject.objective.velocity(subject.best_output(before), x, subject.at(before))
        x = x + (after - before) * velocity.double()
    mean, deviation = float(x.mean()), float(x.std())
    if abs(mean - MEAN) > TOLERANCE or abs(deviation - DEVIATION) > TOLERANCE:
        yield (
            f"expected samples with mean {MEAN} and standard deviation {DEVIATION}, as the data; "
            f"saw {mean:.3f} and {deviation:.3f}"
        )


def check_variance(subject: ObjectiveSubject) -> Iterator[str]:
    """With `reads_variance`, the loss depends on the variance, and `velocity_and_variance` gives both as they are."""
    if not subject.options.reads_variance:
        return
    for time in subject.objective.validation_times:
        # A variance that depends on the sample, behind the best prediction.
        t, best = subject.at(time), subject.best_output(time)
        learned = (subject.noise / 4).requires_grad_()

        def predict(x: Tensor, t: Tensor, best: Any = best, learned: Tensor = learned) -> Tensor:
            return torch.cat([best(x, t)[:, :1], learned], dim=1)

        # What the loss and a sampler make of it.
        loss = subject.objective.losses(predict, subject.x, subject.noise, t).double().sum()
        (gradient,) = torch.autograd.grad(loss, learned, allow_unused=True)
        if gradient is None or not gradient.isfinite().all() or not gradient.any():
            yield f"at time {time:g} the loss has no finite gradient in the variance"
        seen = subject.objective.corrupt(subject.x, subject.noise, t)
        both = subject.objective.velocity_and_variance(predict, seen, t)
        expected = torch.cat([subject.objective.velocity(predict, seen, t), learned], dim=1)
        if both.shape != expected.shape or not torch.allclose(both.double(), expected.double(), rtol=1e-5):
            yield f"at time {time:g} velocity_and_variance is not the velocity with the variance behind it"


OBJECTIVE_CHECKS: tuple[Callable[[ObjectiveSubject], Iterator[str]], ...] = (
    check_times,
    check_losses,
    check_clean,
    check_sampling,
    check_variance,
)


def check_objective(family: ObjectiveFamily | str, *, options: Mapping[str, Any] | None = None) -> list[Violation]:
    """Return the violations of the contract by an objective, in the order of
    `OBJECTIVE_CHECKS`; empty if there are none.

    Args:
        family: what is announced in the group `tread_bench.objectives`; or its name, where it is installed.
        options: options of the objective.
    """
    family = by_name(family, find_objective)
    with torch.random.fork_rng(devices=[]):
        subject = ObjectiveSubject(family, options or {})
        return run_checks(OBJECTIVE_CHECKS, subject)
