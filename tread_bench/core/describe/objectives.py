"""Lookup of objectives by name, through entry points of the group `tread_bench.objectives`.

An objective defines how data are corrupted and what a network learns to predict. Its `ObjectiveFamily` states what the
rest of the package needs to know about it; nobody compares its name.
"""

from __future__ import annotations

from dataclasses import dataclass

from tread_bench.core.config.base import Model
from tread_bench.core.describe.plugins import Description, Kind


class ObjectiveOptions(Model):
    """An objective's settings in a suite. A subclass states its name: `name: Literal["mine"] = "mine"`."""

    name: str = ""

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
        return find_objective(self.name)

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


OBJECTIVES = Kind("objective", "tread_bench.objectives", ObjectiveFamily, ObjectiveOptions)
objectives = OBJECTIVES.all
find_objective = OBJECTIVES.find
