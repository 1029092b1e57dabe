"""The contract of samplers, as checks for their authors to run.

    from tread_bench.contract import check_sampler

    def test_the_contract_holds():
        assert check_sampler(SAMPLER) == []

Each integrates dx/dt = (1 + t) x in float64, whose solution is x(t) = x(s) exp(E(t) - E(s)), E(t) = t + t^2 / 2. A
sampler that draws noise takes normal data from one noise level to another, where their variance is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import torch
from torch import Tensor

from tread_bench.core.describe.plugins import by_name
from tread_bench.core.describe.samplers import SamplerFamily, find_sampler
from tread_bench.core.describe.violations import Violation, run_checks
from tread_bench.diffusion.samplers.integrate import Perturb, Velocity, build_sampler, integrate

BATCH = 6
LATEST, EARLIEST = 1.0, 0.25  # times between which the order is measured: a last step, to 0, may be of another order
STEPS = (8, 16, 32, 64)
TOLERANCE = 0.3  # of an order
ROUNDING = 1e-12  # a smaller error is rounding, not the method's
DEVIATION = 0.5  # of normal data


class SamplerSubject:
    """A sampler, and samples x (B, 1, 2, 2) to start from."""

    def __init__(self, family: SamplerFamily) -> None:
        self.family = family
        self.x = 1 + torch.rand(BATCH, 1, 2, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def sampled(
        self,
        times: Sequence[float],
        velocity: Velocity | None = None,
        perturb: Perturb | None = None,
        part: slice = slice(None),
    ) -> Tensor:
        """Integrate the samples, or a part of them, with a new sampler; each has noise of its own."""

        def noise(x: Tensor, step: int) -> Tensor:
            generator = torch.Generator().manual_seed(step)
            return torch.randn(self.x.shape, generator=generator, dtype=self.x.dtype)[part]

        drawn = noise if self.family.draws_noise else None
        return integrate(build_sampler(self.family), velocity or growth, self.x[part], times, perturb, drawn)


def growth(x: Tensor, t: Tensor) -> Tensor:
    """dx/dt = (1 + t) x."""
    return (1 + t).view(-1, 1, 1, 1) * x


def exponent(start: float, end: float) -> float:
    """Return the logarithm of the factor by which x grows between two times."""
    return (end + end**2 / 2) - (start + start**2 / 2)


def times_to(end: float, steps: int) -> list[float]:
    """Return descending times with shorter steps at the end, as usual when sampling images."""
    return [end + (LATEST - end) * ((steps - step) / steps) ** 1.5 for step in range(steps + 1)]


def check_step(subject: SamplerSubject) -> Iterator[str]:
    """It can be built, and returns finite values of x's shape and type; otherwise no other check is run."""
    x = subject.sampled(times_to(0.0, 4))
    if x.shape != subject.x.shape or x.dtype != subject.x.dtype or not x.isfinite().all():
        yield f"expected finite {subject.x.dtype} of shape {tuple(subject.x.shape)}; saw {x.dtype} {tuple(x.shape)}"


def check_calls(subject: SamplerSubject) -> Iterator[str]:
    """It calls the velocity as often as `call_times` says, and at these times."""
    for steps in (1, 2, 7):
        # Stated and actual calls.
        times = times_to(0.0, steps)
        stated = [time for now, after in pairwise(times) for time in subject.family.call_times(now, after)]
        seen: list[float] = []

        def velocity(x: Tensor, t: Tensor, seen: list[float] = seen) -> Tensor:
            seen.append(float(t[0]))
            return growth(x, t)

        subject.sampled(times, velocity)

        # Compare them.
        counted = subject.family.num_calls(steps)
        if len(stated) != counted:
            yield f"call_times names {len(stated)} calls in {steps} steps; with as many at all but the last: {counted}"
        if len(seen) != len(stated):
            yield f"expected {len(stated)} calls in {steps} steps, as call_times says; saw {len(seen)}"
        elif wrong := [(a, b) for a, b in zip(stated, seen, strict=True) if not math.isclose(a, b, rel_tol=1e-9)]:
            yield f"call_times names a call at time {wrong[0][0]:g}; saw it at {wrong[0][1]:g}"


def check_order(subject: SamplerSubject) -> Iterator[str]:
    """Doubling the steps reduces the error by 2^order."""
    if subject.family.draws_noise:
        return  # its steps do not follow the velocity alone
    errors = []
    for steps in STEPS:
        exact = subject.x * math.exp(exponent(LATEST, EARLIEST))
        errors.append(_largest_error(subject.sampled(times_to(EARLIEST, steps)), exact))
    yield from _wrong_order(subject, errors, "")


def check_batch(subject: SamplerSubject) -> Iterator[str]:
    """A sample does not depend on the other samples of its batch, nor on earlier batches."""
    times = times_to(0.0, 8)
    whole = subject.sampled(times)
    parts = [subject.sampled(times, part=slice(first, first + 2)) for first in range(0, BATCH, 2)]
    if not torch.allclose(torch.cat(parts), whole, rtol=1e-9, atol=1e-12):
        yield "the batch in parts gives other samples: take no step that depends on other samples"
    if not torch.equal(subject.sampled(times), whole):
        yield "the same batch twice gives two results: keep what a step remembers on the object that is built"


def check_churn(subject: SamplerSubject) -> Iterator[str]:
    """With `takes_churn`, its order is the same if steps start elsewhere: here at -x, at a higher time."""
    if not subject.family.takes_churn:
        return
    errors = []
    for steps in STEPS:
        times = times_to(EARLIEST, steps)
        raised = [now + (now - after) / 2 for now, after in pairwise(times)]
        total = sum(exponent(now, after) for now, after in zip(raised, times[1:], strict=True))

        def flipped(x: Tensor, t: float, step: int, raised: list[float] = raised) -> tuple[Tensor, float]:
            return -x, raised[step]

        exact = subject.x * (-1) ** steps * math.exp(total)
        errors.append(_largest_error(subject.sampled(times, perturb=flipped), exact))
    yield from _wrong_order(subject, errors, ", with noise added before each step")


def check_noise(subject: SamplerSubject) -> Iterator[str]:
    """With `draws_noise`, the variance of samples of normal data has an error that falls by 2^order.

    All is linear, so what each step's noise contributes is seen on a sample of its own: the first starts from 1 without
    noise, the others from 0, with noise 1 in one step.
    """
    if not subject.family.draws_noise:
        return
    errors = []
    for steps in STEPS:
        x = torch.zeros(steps + 1, 1, 1, 1, dtype=torch.float64)
        x[0] = math.hypot(DEVIATION, LATEST)

        def noise(x: Tensor, step: int) -> Tensor:
            drawn = torch.zeros_like(x)
            drawn[step + 1] = 1
            return drawn

        found = integrate(build_sampler(subject.family), normal_data, x, times_to(EARLIEST, steps), noise=noise)
        if not found[1:].any():
            yield "it is given noise and does not use it: leave out draws_noise"
            return
        errors.append(abs(float(found.square().sum()) - (DEVIATION**2 + EARLIEST**2)))
    yield from _wrong_order(subject, errors, " of the variance of normal data")


def normal_data(x: Tensor, t: Tensor) -> Tensor:
    """dx/dt of the probability flow over noise levels t of normal data with mean 0."""
    t = t.view(-1, 1, 1, 1)
    return t * x / (DEVIATION**2 + t**2)


def _largest_error(found: Tensor, exact: Tensor) -> float:
    return float((found - exact).abs().max())


def _wrong_order(subject: SamplerSubject, errors: Sequence[float], when: str) -> Iterator[str]:
    """The observed order if it is wrong, measured at the most steps whose error is not rounding."""
    shown = [math.log2(coarse / fine) for coarse, fine in pairwise(errors) if fine > ROUNDING]
    if shown and not abs(shown[-1] - subject.family.order) <= TOLERANCE:
        yield f"expected order {subject.family.order}{when}; saw {shown[-1]:.2f}"


SAMPLER_CHECKS: tuple[Callable[[SamplerSubject], Iterator[str]], ...] = (
    check_step,
    check_calls,
    check_order,
    check_batch,
    check_churn,
    check_noise,
)


def check_sampler(family: SamplerFamily | str) -> list[Violation]:
    """Return the violations of the contract by a sampler, in the order of `SAMPLER_CHECKS`; empty if there are none.

    Args:
        family: what is announced in the group `tread_bench.samplers`; or its name, where it is installed.
    """
    family = by_name(family, find_sampler)
    subject = SamplerSubject(family)
    return run_checks(SAMPLER_CHECKS, subject, first_decides=True)
