"""Lookup of samplers by name, through entry points of the group `tread_bench.samplers`.

A sampler takes the steps from noise to data. Its `SamplerFamily` states what the rest of the package needs to know
about it; nobody compares its name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tread_bench.core.describe.plugins import Description, Kind

_STEPS = ((2.0, 1.0), (1.0, 0.0))  # any step, and the last one


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
        each, last = (len(self.call_times(*step)) for step in _STEPS)
        return (steps - 1) * each + last


SAMPLERS = Kind("sampler", "tread_bench.samplers", SamplerFamily)
samplers = SAMPLERS.all
find_sampler = SAMPLERS.find
