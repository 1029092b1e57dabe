"""Lookup of objectives and of samplers by name, through entry points of `tread_bench.objectives` and `.samplers`.

An objective defines how data are corrupted and what a network learns to predict; a sampler takes the steps from noise
to data. An `ObjectiveFamily` and a `SamplerFamily` state what the rest of the package needs to know about one; nobody
compares its name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tread_bench.core.config.base import Options
from tread_bench.core.describe.plugins import Description, Kind


class ObjectiveOptions(Options):
    """An objective's settings in a suite. A subclass states its name: `name: Literal["mine"] = "mine"`."""

    @property
    def reads_variance(self) -> bool:
        """Whether it learns a variance as well: networks then return 2C channels."""
        return False

    @property
    def most_sampling_steps(self) -> int | None:
        """The largest number of steps of a sampler; None: any."""
        return None

    @property
    def family(self) -> ObjectiveFamily:
        return objectives.find(self.name)

    @property
    def time_range(self) -> tuple[float, float]:
        """The lowest and the highest time of training and sampling, apart from 0."""
        raise NotImplementedError

    def sampling_time(self, step: int, steps: int) -> float:
        """Return the time at which step `step` of `steps` starts; times descend, and step `steps` is at 0."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class ObjectiveFamily(Description):
    """Torch-free description of an objective.

    Args:
        name: its name in a suite.
        options: its typed settings; the docstring's first line is what `tread-bench list objectives` shows.
        builder: "module:attribute" of a callable (options) -> `Objective`.
        has_noise_levels: its times are standard deviations of the noise added to the data, which stochastic
            sampling can raise.
        numbers_levels: networks are told the number of a noise level, from 0, in place of a time.
        predicts_noise: the error of a network's estimate of the data grows with the noise level without bound, so that
            no loss can be on the estimate.
    """

    options: type[ObjectiveOptions]
    builder: str
    has_noise_levels: bool
    numbers_levels: bool = False
    predicts_noise: bool = False


objectives = Kind("objective", "tread_bench.objectives", ObjectiveFamily, ObjectiveOptions)


@dataclass(frozen=True, kw_only=True)
class SamplerFamily(Description):
    """Torch-free description of a sampler.

    Args:
        name: its name in a suite.
        about: one line that `tread-bench list samplers` shows.
        builder: "module:attribute" of a callable () -> `Step`. One is built for each batch of samples, so it may
            remember earlier steps.
        call_times: (time at which a step starts, time at which it ends) -> times of its calls of the velocity, in
            order: at the end of the step or before it, and above 0. Every step makes the same number of calls, except
            the last, which ends at 0.
        order: order of convergence: with n steps, the error is proportional to n^-order.
        takes_churn: a step may start from another x, at a higher time, than the previous step reached.
        needs_noise_levels: times must be noise levels, of x + sigma noise.
        draws_noise: a step ends at random: it is given standard normal noise, and a learned variance if any.
    """

    about: str
    builder: str
    call_times: Callable[[float, float], Sequence[float]]
    order: int
    takes_churn: bool
    needs_noise_levels: bool = False
    draws_noise: bool = False

    def num_calls(self, steps: int) -> int:
        """Return the number of velocity calls in `steps` steps, the last of which ends at 0."""
        return (steps - 1) * len(self.call_times(2.0, 1.0)) + len(self.call_times(1.0, 0.0))


samplers = Kind("sampler", "tread_bench.samplers", SamplerFamily)
